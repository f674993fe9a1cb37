"""What an mbarrier orders: what lanes have done before they arrive there, alone or with the others of their warp."""

import numpy as np
import pytest
from ptx_data import findings

HEAD = """
__device__ __forceinline__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void init(void* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void wait(void* bar, int parity) {
  asm volatile("{ .reg .pred p;\\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@!p bra again; }"
               ::"r"(at(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void arrive(void* bar) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ bool elected() {
  int yes;
  asm volatile("{ .reg .pred p;\\nelect.sync _|p, 0xffffffff;\\nselp.b32 %0, 1, 0, p; }" : "=r"(yes));
  return yes;
}
extern "C" __global__ void k(const int* a, int* b) {
  __shared__ int tile[128];
  __shared__ __align__(8) unsigned long long full, empty;
  const int i = threadIdx.x % 64, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = 0;
  if (threadIdx.x == 0) { init(&full, FULL); init(&empty, EMPTY); }
  __syncthreads();
  if (threadIdx.x < 64) {
    for (int t = 0; t < 3; ++t) { if (t > 0) wait(&empty, (t - 1) & 1); tile[i] = a[i] + t; FILLED }
  } else {
    for (int t = 0; t < 3; ++t) { wait(&full, t & 1); sum += tile[63 - i]; TAKEN }
  }
  b[threadIdx.x] = sum;
}
"""
ALONE, JOINED, ALL = "if (lane == 0) arrive({0});", "__syncwarp(); if (lane == 0) arrive({0});", "arrive({0});"
ARRIVALS = {
    "one lane, with its warp": (JOINED, 2, True, True),
    "all lanes": (ALL, 64, True, True),
    "one lane, with all warps of its side": (
        'asm volatile("bar.sync %0, 64;" ::"r"(1 + warp / 2) : "memory"); if (i == 0) arrive({0});', 1, True, True,
    ),
    "every lane in its turn": ("for (int n = 0; n < 32; ++n) if (lane == n) arrive({0});", 64, True, True),
    "one lane": (ALONE, 2, False, False),
    "another lane": ("if (lane == 31) arrive({0});", 2, False, False),
    "the elected lane": ("if (elected()) arrive({0});", 2, False, True),
    "one lane, after values went round": (
        "sum += __shfl_xor_sync(~0u, sum, 1) & 0; " + ALONE, 2, False, True,
    ),
    "one lane before its warp comes": ("if (lane == 0) arrive({0}); __syncwarp();", 2, False, False),
    "one lane of one warp": ("if (i == 0) arrive({0});", 1, False, False),
    "one warp of two": ("if (i < 32) arrive({0});", 32, False, False),
}  # fmt: skip


def found_in(filled, fill_count, taken, take_count):
    source = HEAD.replace("FILLED", filled.format("&full")).replace("FULL", str(fill_count))
    source = source.replace("TAKEN", taken.format("&empty")).replace("EMPTY", str(take_count))
    return findings(source, np.arange(64, dtype=np.int32), np.zeros(128, dtype=np.int32), threads=128)


@pytest.mark.parametrize("name", ARRIVALS)
def test_who_waits_is_ordered_after_those_that_arrived(name):
    arrival, count, orders_writes, _ = ARRIVALS[name]
    found = found_in(arrival, count, JOINED, 2)
    assert {fault for fault, _, _ in found} == (set() if orders_writes else {"RACE"})
    assert all("reads shared memory where thread" in text for _, _, text in found)


@pytest.mark.parametrize("name", ARRIVALS)
def test_a_stage_is_filled_again_after_those_that_have_read_it_arrived(name):
    arrival, count, _, orders_reads = ARRIVALS[name]
    found = found_in(JOINED, 2, arrival, count)
    assert {fault for fault, _, _ in found} == (set() if orders_reads else {"RACE"})
    assert all("writes shared memory where thread" in text for _, _, text in found)


def test_lanes_beyond_a_count_arrive_in_the_phases_after_it():
    found = found_in("arrive({0});", 1, JOINED, 2)  # 64 phases, and the parity of the first again
    assert any("never completes" in text for _, _, text in found), found


HANDED_ON = {
    "by a barrier of the block": ("__syncthreads();", True),
    "by a barrier of some warps": ('if (warp != 1) asm volatile("bar.sync 1, 96;" ::: "memory");', True),
    "by another mbarrier": (
        "if (warp == 2) { __syncwarp(); if (lane == 0) arrive(&empty); } if (warp == 3) wait(&empty, 0);",
        True,
    ),
    "by nobody": ("", False),
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_who_waited_hands_on_what_it_knows(name):
    """A lane writes and arrives alone; warp 2 waits for it, and tells warp 3, which reads what the lane wrote."""
    between, is_ordered = HANDED_ON[name]
    body = f"""
  if (warp == 0) {{ if (lane == 0) {{ tile[0] = 7; arrive(&full); }} }}
  if (warp == 2) wait(&full, 0);
  {between}
  if (warp == 3) sum += tile[a[0]];
  b[threadIdx.x] = sum;
}}
"""
    begin = HEAD[: HEAD.index("  if (threadIdx.x < 64)")].replace("FULL", "1").replace("EMPTY", "1")
    found = findings(begin + body, np.arange(64, dtype=np.int32), np.zeros(128, dtype=np.int32), threads=128)
    assert {fault for fault, _, _ in found} == (set() if is_ordered else {"RACE"})


COPY = """
extern "C" __global__ void k(const int* a, int* b) {
  __shared__ __align__(16) int tile[64];
  __shared__ __align__(8) unsigned long long full;
  BEGIN
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&full)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                 ::"r"(at(tile)), "l"(a), "r"(at(&full)) : "memory");
  }
  wait(&full, 0);
  b[threadIdx.x] = tile[threadIdx.x];
}
"""
INIT = 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");'
PROXY = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
SHOWN = {
    "by its own fence": (f"if (threadIdx.x == 0) {{ init(&full, 1); {INIT} }} __syncthreads();", True),
    "by a fence of the proxy": (f"if (threadIdx.x == 0) {{ init(&full, 1); {PROXY} }} __syncthreads();", True),
    "by a fence of who copies": (f"if (threadIdx.x == 33) init(&full, 1); __syncthreads(); {PROXY}", True),
    "by all, after the barrier": (
        f"if (threadIdx.x == 0) init(&full, 1); __syncthreads(); {PROXY} __syncthreads();", True,
    ),
    "by nothing": ("if (threadIdx.x == 0) init(&full, 1); __syncthreads();", False),
    "by a fence before": (f"if (threadIdx.x == 0) {{ {INIT} {PROXY} init(&full, 1); }} __syncthreads();", False),
    "by a fence of memory": ("if (threadIdx.x == 0) { init(&full, 1); __threadfence(); } __syncthreads();", False),
    "by another thread's fence": (
        f"if (threadIdx.x == 0) init(&full, 1); if (threadIdx.x == 1) {{ {INIT} }} __syncthreads();", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_copy_completes_on_an_mbarrier_that_its_proxy_sees(name):
    begin, is_shown = SHOWN[name]
    source = HEAD[: HEAD.index('extern "C"')] + COPY.replace("BEGIN", begin)
    found = findings(source, np.arange(64, dtype=np.int32), np.zeros(64, dtype=np.int32), threads=64)
    assert [fault for fault, _, _ in found] == ([] if is_shown else ["RACE"])
    assert all("completes on the mbarrier that is initialised at kernel.cu:4" in text for _, _, text in found)
