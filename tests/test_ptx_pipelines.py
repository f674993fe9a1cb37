"""A producer's warp and consumers' in the interpreter of PTX: bulk copies, mbarriers, named barriers, tensor cores."""

import numpy as np
import pytest
import torch
from ptx_data import findings, run

# Matrices of 16 x 16 in bf16, one after another, go through two buffers in shared memory. Each of two consuming warps
# multiplies every one with itself, columns 8 w to 8 w + 7 for warp w, and sums the products.
SOURCE = r"""
typedef unsigned u32;
typedef unsigned long long u64;
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void wait(u64* bar, u32 parity) {
  asm volatile("{\n .reg .pred done;\n again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               " @!done bra again;\n}" :: "r"(at(bar)), "r"(parity) : "memory");
}
extern "C" __global__ void k(const char* x, float* z, int count) {
  __shared__ __align__(128) uint4 s[2][32];
  __shared__ __align__(16) float total[2][64];
  __shared__ u64 full[2], empty[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int n = 0; n < 2; ++n) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(full + n)) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" :: "r"(at(empty + n)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (warp == 2) {
    if (lane == 0) {
      for (int n = 0; n < count; ++n) {
        if (n >= 2) { WAIT_EMPTY }
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(at(full + n % 2)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     :: "r"(at(s[n % 2])), "l"(x + 512 * n), "r"(at(full + n % 2)) : "memory");
      }
    }
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    return;
  }
  float f[4] = {};
  for (int n = 0; n < count; ++n) {
    WAIT_FULL
    u32 a[4], b[2];
    const u32 tile = at(s[n % 2]), row = tile + lane % 16 * 32;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(row + lane / 16 * 16) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1]) : "r"(row + warp * 16) : "memory");
    __syncwarp();
    if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(empty + n % 2)) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};" : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  // The consumers exchange the lower eight rows, and each stores what the other has summed.
  total[warp][lane * 2] = f[2]; total[warp][lane * 2 + 1] = f[3];
  MEET
  float* out = z + lane / 4 * 16 + lane % 4 * 2;
  out[warp * 8] = f[0]; out[warp * 8 + 1] = f[1];
  out[128 + (1 - warp) * 8] = total[1 - warp][lane * 2]; out[128 + (1 - warp) * 8 + 1] = total[1 - warp][lane * 2 + 1];
}
"""
PARTS = {
    "WAIT_EMPTY": "wait(empty + n % 2, (n / 2 - 1) % 2);",
    "WAIT_FULL": "wait(full + n % 2, n / 2 % 2);",
    "MEET": 'asm volatile("bar.sync 1, 64;" ::: "memory");',
}
ONE_WAITS = "if (lane == 0) wait(full + n % 2, n / 2 % 2); __syncwarp();"
COUNT = 7


def source(**changed):
    text = SOURCE
    for name, part in (PARTS | changed).items():
        text = text.replace(name, part)
    return text


def statement_at(line):
    """The first word of what is asked for by the assembly at a line, or just before: a statement may have two lines."""
    lines = SOURCE.splitlines()
    return next(word for text in (lines[line - 1], lines[line - 2]) for word in WATCHED if word in text)


def drawn():
    return torch.randn((COUNT, 16, 16), generator=torch.Generator().manual_seed(5)).bfloat16()


@pytest.mark.parametrize("waits", [PARTS["WAIT_FULL"], ONE_WAITS], ids=["all lanes wait", "one lane waits"])
def test_a_pipeline_gives_what_it_sums(waits):
    x, z = drawn(), np.zeros((16, 16), dtype=np.float32)
    found, _ = run(source(WAIT_FULL=waits), x.view(torch.int16).numpy().copy(), z, COUNT, threads=96)
    assert found == ()
    np.testing.assert_allclose(z, (x.double() @ x.double()).sum(0).numpy(), rtol=1e-5, atol=1e-5)


COPY, LOAD, EXCHANGE = WATCHED = ("cp.async.bulk", "ldmatrix", "out[128")
FAULTS = {
    "a buffer that is filled again before it was read": ({"WAIT_EMPTY": ""}, {("RACE", COPY), ("BARRIER", "")}),
    "a buffer that is read before it is filled": ({"WAIT_FULL": ""}, {("RACE", COPY), ("RACE", LOAD)}),
    "a buffer that another warp waits for": (
        {"WAIT_FULL": "if (warp == 0) wait(full + n % 2, n / 2 % 2); __syncwarp();"},
        {("RACE", LOAD)},
    ),
    "no barrier of the consumers": ({"MEET": "__syncwarp();"}, {("RACE", EXCHANGE)}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wait_that_is_missing_is_found(name):
    changed, expected = FAULTS[name]
    x, z = drawn().view(torch.int16).numpy().copy(), np.zeros((16, 16), dtype=np.float32)
    found = findings(source(**changed), x, z, COUNT, threads=96)
    assert {(kind, statement_at(line) if kind == "RACE" else "") for kind, line, _ in found} == expected


# Three pieces of 512 bytes go through one buffer, and a warp each takes one of them, in order.
HEAD = SOURCE[: SOURCE.index('extern "C"')]
IN_ORDER = r"""
extern "C" __global__ void k(const char* x, uint4* z) {
  __shared__ __align__(128) uint4 s[32];
  __shared__ u64 full, empty;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full)) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&empty)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (warp == 3) {
    if (lane == 0) {
      for (int n = 0; n < 3; ++n) {
        if (n > 0) wait(&empty, (n - 1) % 2);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(at(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     :: "r"(at(s)), "l"(x + 512 * n), "r"(at(&full)) : "memory");
      }
    }
    return;
  }
  if (warp > 0) { BEFORE }
  wait(&full, warp % 2);
  z[warp * 32 + lane] = s[lane];
  __syncwarp();
  if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&empty)) : "memory");
  if (warp < 2) { AFTER }
}
"""
HANDED_ON = {
    "BEFORE": 'asm volatile("bar.sync %0, 64;" :: "r"(warp) : "memory");',
    "AFTER": 'asm volatile("bar.arrive %0, 64;" :: "r"(warp + 1) : "memory");',
}


@pytest.mark.parametrize(("parts", "is_safe"), [(HANDED_ON, True), (dict.fromkeys(HANDED_ON, ""), False)])
def test_a_wait_by_parity_tells_nothing_of_a_phase_whose_predecessor_may_not_be_complete(parts, is_safe):
    """Warp 1 waits for the second phase, and on a GPU goes on at once where the first is not complete."""
    text = HEAD + IN_ORDER
    for name, part in parts.items():
        text = text.replace(name, part)
    x, z = np.arange(3 * 128, dtype=np.int32), np.zeros(3 * 128, dtype=np.int32)
    found, _ = run(text, x, z, threads=128)
    assert (found == ()) == is_safe
    if is_safe:
        np.testing.assert_array_equal(z, x)


# Threads meet at one mbarrier, which is initialised again for every piece of 64 floats.
AGAIN = r"""
extern "C" __global__ void k(const float* x, float* z) {
  __shared__ float s[64];
  __shared__ u64 bar;
  const int i = threadIdx.x;
  for (int n = 0; n < 3; ++n) {
    if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(at(&bar)) : "memory");
    __syncthreads();
    s[i] = x[64 * n + i];
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&bar)) : "memory");
    if (WAITS) wait(&bar, 0);
    z[64 * n + i] = s[63 - i];
    __syncthreads();
    if (i == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at(&bar)) : "memory");
  }
}
"""


@pytest.mark.parametrize(("waits", "faults"), [("true", set()), ("n == 0", {"RACE"})])
def test_an_mbarrier_that_is_initialised_again_begins_anew(waits, faults):
    text = HEAD + AGAIN.replace("WAITS", waits)
    x, z = np.arange(192, dtype=np.float32), np.zeros(192, dtype=np.float32)
    assert {kind for kind, *_ in findings(text, x, z, threads=64)} == faults
