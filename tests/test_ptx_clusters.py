"""Clusters in the interpreter of PTX: their barrier, what it orders, and each other's shared memory."""

import numpy as np
import pytest
from ptx_data import findings, run

from gdnbench.errors import DeclarationError, NotInterpretedError

CLUSTER = 4
# Each block of a cluster gives each other one its number squared; all of them sum what they were given.
SOURCE = r"""
__device__ __forceinline__ void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void relax() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ unsigned there(const float* mine, unsigned rank) {
  unsigned at = (unsigned)__cvta_generic_to_shared(mine);
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(at) : "r"(rank));
  return at;
}
__device__ __forceinline__ void put(float* mine, unsigned rank, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there(mine, rank)), "f"(value) : "memory");
}
__device__ __forceinline__ float get(const float* mine, unsigned rank) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there(mine, rank)) : "memory");
  return value;
}
extern "C" __global__ void __cluster_dims__(4) k(float* a, int n) {
  __shared__ float given[4];
  unsigned rank, blocks, cluster, clusters;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
  asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
  BODY
}
"""
EXCHANGE = """
  BEFORE
  if (threadIdx.x < blocks) put(given + rank, threadIdx.x, (float)(blockIdx.x * blockIdx.x));
  BETWEEN
  if (threadIdx.x == 0) a[blockIdx.x] = given[0] + given[1] + given[2] + given[3] + 1000.f * cluster + 0.5f * clusters;
"""


def source(body, **parts):
    text = SOURCE.replace("BODY", body)
    for name, part in parts.items():
        text = text.replace(name.upper(), part)
    return text


@pytest.mark.parametrize("lanes", [32, 1 << 15])
def test_blocks_write_to_each_others_shared_memory(lanes):
    a = np.zeros(12, dtype=np.float32)
    body = source(EXCHANGE, before="arrive(); wait();", between="arrive(); wait();")
    found, _ = run(body, a, 0, blocks=(12, 1, 1), threads=64, lanes=lanes)
    assert found == ()
    squares = (np.arange(12.0) ** 2).reshape(3, CLUSTER).sum(axis=1)
    np.testing.assert_array_equal(a, np.repeat(squares + 1000 * np.arange(3) + 1.5, CLUSTER))


def test_blocks_read_each_others_shared_memory():
    a = np.zeros(8, dtype=np.float32)
    body = "if (threadIdx.x == 0) given[1] = (float)blockIdx.x; arrive(); wait();"
    body += "if (threadIdx.x == 0) a[blockIdx.x] = get(given + 1, (rank + 1) % 4); arrive(); wait();"
    found, _ = run(source(body), a, 0, blocks=(8, 1, 1))
    assert found == ()
    np.testing.assert_array_equal(a, [1, 2, 3, 0, 5, 6, 7, 4])


@pytest.mark.parametrize("between", ["__syncthreads();", "arrive();", "relax(); wait();"])
def test_what_no_barrier_of_the_cluster_orders_is_a_race(between):
    a = np.zeros(4, dtype=np.float32)
    tail = " wait();" if between == "arrive();" else ""
    found = findings(source(EXCHANGE + tail, before="", between=between), a, 0, blocks=(4, 1, 1))
    races = [text for kind, _, text in found if kind == "RACE"]
    assert "of block" in races[0]


@pytest.mark.parametrize(("order", "races"), [("arrive(); wait(); WRITE", 0), ("arrive(); WRITE wait();", 1)])
def test_a_block_overwrites_what_others_have_read_only_after_the_wait(order, races):
    """All blocks of a cluster read one number of global memory, and one updates it."""
    write = "if (rank == 1 && threadIdx.x == 0) a[cluster] = seen + 1.f;"
    body = "const float seen = a[cluster]; given[0] = seen; " + order.replace("WRITE", write)
    a = np.array([5.0, 7.0], dtype=np.float32)
    found = findings(source(body), a, 0, blocks=(8, 1, 1))
    assert [kind for kind, _, _ in found] == ["RACE"] * races
    np.testing.assert_array_equal(a, [6, 8])


def test_threads_that_have_ended_count_as_arrived():
    body = "if (rank == 2) return; arrive(); wait(); if (threadIdx.x == 0) a[blockIdx.x] = 1.f;"
    a = np.zeros(4, dtype=np.float32)
    assert findings(source(body), a, 0, blocks=(4, 1, 1)) == []
    np.testing.assert_array_equal(a, [1, 1, 0, 1])


FAULTS = {
    "a write behind the arrival races with what follows the wait": (
        "arrive(); wait(); arrive(); if (threadIdx.x == 0) put(given, (rank + 1) % 4, 1.f); wait();"
        "if (threadIdx.x == 0) a[blockIdx.x] = given[0]; arrive(); wait();",
        "RACE", "",
    ),
    "a block that never arrives is waited for in vain": (
        'if (rank == 2) { asm volatile("bar.sync 1, 64;"); } else { arrive(); wait(); }', "BARRIER",
        "its cluster's barrier",
    ),
    "an arrival without a wait between": (
        "arrive(); arrive(); wait();", "BARRIER",
        "arrives at the cluster's barrier again without having waited there",
    ),
    "a rank outside the cluster": ("put(given, 4, 1.f);", "OUT_OF_BOUNDS", "names block 4 of a cluster of 4"),
    "an address beside a peer's shared memory": ("put(given + 4, 1, 1.f);", "OUT_OF_BOUNDS", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_misuse_is_a_fault(name):
    body, fault, told = FAULTS[name]
    found = findings(source(body), np.zeros(4, dtype=np.float32), 0, blocks=(4, 1, 1))
    assert any(kind == fault and told in text for kind, _, text in found), found
    assert fault == "OUT_OF_BOUNDS" or {kind for kind, _, _ in found} == {fault}


def test_blocks_that_make_no_whole_clusters_are_refused():
    with pytest.raises(DeclarationError, match="no whole clusters of 4"):
        run(source("arrive(); wait();"), np.zeros(6, dtype=np.float32), 0, blocks=(6, 1, 1))


def test_clusters_along_another_axis_are_not_guessed():
    text = source("arrive(); wait();").replace("__cluster_dims__(4)", "__cluster_dims__(2, 2)")
    with pytest.raises(NotInterpretedError, match="along y"):
        run(text, np.zeros(4, dtype=np.float32), 0, blocks=(4, 2, 1))


LIVES = {
    "both barriers": ("arrive(); wait(); READ arrive(); wait();", ""),
    "a last barrier that orders nothing": ("arrive(); wait(); READ relax(); wait();", ""),
    "one thread waits": ("arrive(); wait(); READ arrive(); if (threadIdx.x == 0) wait();", ""),
    "two reads and one barrier more": ("arrive(); wait(); READ READ arrive(); wait(); arrive(); wait();", ""),
    "nobody waits for the read": ("arrive(); wait(); READ", "may have ended"),
    "nobody waits, though all arrive": ("arrive(); wait(); READ arrive();", "may have ended"),
    "a second read after the last barrier": ("arrive(); wait(); READ arrive(); wait(); READ", "may have ended"),
    "only some blocks stay": ("arrive(); wait(); READ if (rank < 2) { arrive(); wait(); }", "may have ended"),
    "no barrier before": ("__syncthreads(); READ arrive(); wait();", "may not run yet"),
}


@pytest.mark.parametrize("name", LIVES)
def test_a_block_is_there_while_others_use_its_memory(name):
    body, told = LIVES[name]
    read = "if (threadIdx.x == 0) a[blockIdx.x] += get(given, (rank + 1) % 4);"
    begin = "if (threadIdx.x == 0) given[0] = 1.f; __syncthreads();"
    found = findings(source(begin + body.replace("READ", read)), np.zeros(8, dtype=np.float32), 0, blocks=(8, 1, 1))
    lives = [text for kind, _, text in found if kind == "BARRIER"]
    assert len(lives) == bool(told)
    assert all(told in text for text in lives)
    assert [kind for kind, _, _ in found if kind != "BARRIER"] == (["RACE"] if "may not" in told else [])


def test_where_flags_may_hold_a_block_back_its_end_is_not_watched():
    body = "arrive(); wait(); if (threadIdx.x == 0) { a[rank] = get(given, (rank + 1) % 4); atomicAdd(a + 4, 1.f); }"
    body = "if (threadIdx.x == 0) given[0] = 1.f;" + body
    assert findings(source(body), np.zeros(5, dtype=np.float32), 0, blocks=(4, 1, 1)) == []


def test_a_blocks_own_addresses_have_its_rank_above_them():
    a = np.zeros(8, dtype=np.float32)
    body = "given[0] = 7.f; a[blockIdx.x] = given[0] + 10.f * ((unsigned)__cvta_generic_to_shared(given) >> 24 > 0);"
    assert run(source(body), a, 0, blocks=(8, 1, 1), threads=1)[0] == ()
    np.testing.assert_array_equal(a, [7, 17, 17, 17] * 2)


# The first block copies twice, so that the one that writes to it has waited for fewer copies of its own.
COPIES = r"""
  __shared__ __align__(16) float into[4];
  __shared__ unsigned long long barrier;
  const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), to = (unsigned)__cvta_generic_to_shared(into);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(at) : "memory");
    for (int i = 0; i < 1 + (rank == 0); ++i) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;\n"
                   "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 16, [%0];"
                   :: "r"(at), "r"(to), "l"(a) : "memory");
      if (AWAITED)
      asm volatile("{ .reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                   "@!done bra again; }" :: "r"(at), "r"(i) : "memory");
    }
  }
  arrive(); wait();
  if (threadIdx.x == 0) put(into, (rank + 1) % 4, 1.f);
  arrive(); wait();
"""


@pytest.mark.parametrize(("awaited", "races"), [("true", False), ("i == 0", True)])
def test_a_cluster_knows_for_which_copies_its_blocks_have_waited(awaited, races):
    found = findings(source(COPIES, awaited=awaited), np.zeros(4, dtype=np.float32), 0, blocks=(4, 1, 1))
    assert {kind for kind, _, _ in found} == ({"RACE"} if races else set()), found


# Each block copies four numbers, once they are shown to copies, into the next block, whose threads wait for them.
SENDING = """
  __shared__ alignas(16) float sent[4], come[4];
  __shared__ unsigned long long bar;
  unsigned at = (unsigned)__cvta_generic_to_shared(&bar), next = (rank + 1) % blocks;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(at) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" :: "r"(at) : "memory");
  }
  if (threadIdx.x < 4) sent[threadIdx.x] = 10.f * rank + threadIdx.x;
  SHOWN
  arrive(); wait();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::
        "r"(there(come, next)), "r"((unsigned)__cvta_generic_to_shared(sent)), "r"(there((float*)&bar, next)));
  AWAITED
  if (threadIdx.x < 4) a[blockIdx.x * 4 + threadIdx.x] = come[threadIdx.x];
  arrive(); wait();
"""
AWAITED = """asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;"
                          "@!done bra again; }" :: "r"(at) : "memory");"""
SHOWN = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'


@pytest.mark.parametrize(
    ("shown", "awaited", "text"),
    [(SHOWN, AWAITED, ""), ("", AWAITED, "no `fence.proxy.async`"), (SHOWN, "", "without waiting for the copy")],
)
def test_a_block_copies_into_the_next_one(shown, awaited, text):
    a = np.zeros((8, 4), dtype=np.float32)
    body = source(SENDING, shown=shown, awaited=awaited)
    found, _ = run(body, a, 0, blocks=(8, 1, 1), threads=32)
    assert text in str(found) and bool(text) == bool(found)
    if awaited:
        senders = (np.arange(8) - 1) % CLUSTER
        np.testing.assert_array_equal(a, 10 * senders[:, None] + np.arange(4))
