"""Kernels with one fault each, which the interpreter of PTX names by line; and others like them without it."""

import numpy as np
import pytest
from ptx_data import compiled, findings, run

from gdnbench.ptx.launch import run_program
from gdnbench.ptx.program import LaunchGrid
from gdnbench.ptx.reader import read_program
from gdnbench.ptx.segments import Tensor

HEAD = "#include <cuda_pipeline.h>\n"
KERNEL = 'extern "C" __global__ void k(const float* a, float* b) {{\n  const int i = threadIdx.x;\n{body}\n}}'


def kernel(*lines):
    """The first line of the body is line 4 of kernel.cu."""
    return HEAD + KERNEL.format(body="\n".join(lines))


def of(source, *, threads=32, count=None, **launch):
    a = np.arange(count or threads, dtype=np.float32)
    return findings(source, a, np.zeros(max(threads, 64), dtype=np.float32), threads=threads, **launch)


SHARED = "__shared__ float s[64];"
ASYNC = "__shared__ __align__(16) float4 s[32];"
ASK = "__pipeline_memcpy_async(&s[i], (const float4*)a + i, 16); __pipeline_commit();"


def fault(kind, line, text, *lines, **launch):
    return kernel(*lines), launch, kind, line, text


def fine(*lines, **launch):
    return kernel(*lines), launch


FAULTS = {
    "a read past the end": fault(
        "OUT_OF_BOUNDS", 4, "thread 31 of block 0 reads 4 bytes at byte 128 of `a`, which has 128", "b[i] = a[i + 1];"
    ),
    "a read before the beginning": fault(
        "OUT_OF_BOUNDS", 4, "thread 0 of block 0 reads 4 bytes 16 bytes before `a`", "b[i] = a[i - 4];"
    ),
    "a write past the end": fault("OUT_OF_BOUNDS", 4, "writes 4 bytes at byte 256 of `b`", "b[i + 40] = a[i];"),
    "a pointer to nothing": fault(
        "OUT_OF_BOUNDS", 4, "an address in no tensor", "b[i] = *(const float*)(size_t)(8 * i);"
    ),
    "a vector that is not aligned": fault(
        "MISALIGNED", 4, "reads 16 bytes at an address that is not a multiple of 16",
        "float4 v = *(const float4*)(a + i % 16);", "b[i] = v.x + v.y + v.z + v.w;",
    ),
    "shared memory past the end": fault(
        "OUT_OF_BOUNDS", 7, "reads 4 bytes at byte 256 of shared memory, which has 256", SHARED,
        "s[i] = a[i]; s[i + 32] = 0;", "__syncthreads();", "b[i] = s[i + 40];",
    ),
    "local memory past the end": fault(
        "OUT_OF_BOUNDS", 5, "of local memory, which has 16", "float t[4]; for (int j = 0; j < 4; ++j) t[j] = i * j;",
        "b[i] = t[(int)a[i] / 7];",
    ),
    "shared memory that nobody wrote": fault(
        "UNINITIALISED", 7, "thread 16 of block 0 reads 4 bytes of shared memory that nobody has written", SHARED,
        "if (i < 16) s[i] = a[i];", "__syncthreads();", "b[i] = s[i];",
    ),
    "an output that is read before it is written": fault(
        "UNINITIALISED", 4, "reads 4 bytes of `b` that nobody has written", "b[i] += a[i];", unwritten=(1,)
    ),
    "no barrier before what others wrote is read": fault(
        "RACE", 6,
        "thread 0 of block 0 reads shared memory where thread 32 writes at kernel.cu:5, with no barrier between",
        SHARED, "s[i] = a[i];", "b[i] = s[i ^ 32];", threads=64,
    ),
    "no barrier before what others read is written": fault(
        "RACE", 8, "writes shared memory where thread 32 reads at kernel.cu:7", SHARED, "s[i] = a[i];",
        "__syncthreads();", "float x = s[i ^ 32];", "s[i] = x + 1;", "__syncthreads();", "b[i] = s[i];", threads=64,
    ),
    "no barrier between lanes of a warp": fault(
        "RACE", 6, "reads shared memory where thread 1 writes at kernel.cu:5", SHARED, "s[i] = a[i];",
        "b[i] = s[i ^ 1];",
    ),
    "a barrier of the warp where the block's is needed": fault(
        "RACE", 7, "where thread 32 writes", SHARED, "s[i] = a[i];", "__syncwarp();", "b[i] = s[i ^ 32];", threads=64
    ),
    "two threads that write one place": fault("RACE", 4, "writes `b` where thread", "b[i / 2] = a[i];"),
    "two blocks that write one place": fault(
        "RACE", 4, "writes `b` where thread 0 of block", "b[i] = a[i] + blockIdx.x;", blocks=(4, 1, 1)
    ),
    "two blocks of two parts of the grid": fault(
        "RACE", 4, "where thread 0 of block 0", "b[i] = a[i] + blockIdx.x;", blocks=(4, 1, 1), lanes=32
    ),
    "a block that reads what another writes": fault(
        "RACE", 4, "writes `b` where thread", "if (blockIdx.x == 0) b[i] = a[i];", "else b[i + 32] = b[i];",
        blocks=(2, 1, 1),
    ),
    "a copy that is not waited for": fault(
        "RACE", 7, "without waiting for the copy there", ASYNC, ASK, "__syncthreads();", "b[i] = s[i].x;", count=128
    ),
    "a copy that only its own thread has waited for": fault(
        "RACE", 7, "without waiting for the copy there", ASYNC, ASK, "__pipeline_wait_prior(0);", "b[i] = s[i ^ 1].x;",
        count=128,
    ),
    "a copy of the last group but one": fault(
        "RACE", 8, "without waiting", ASYNC, ASK, "__pipeline_wait_prior(1);", "__syncthreads();", "b[i] = s[i].x;",
        count=128,
    ),
    "a copy that only its own warp has waited for": fault(
        "RACE", 8, "without waiting for the copy there", ASYNC.replace("32", "64"), ASK, "__pipeline_wait_prior(0);",
        "__syncwarp();", "b[i] = s[i ^ 32].x;", count=256, threads=64,
    ),
    "a barrier that half of the block never reaches": fault(
        "BARRIER", 4, "waits for a barrier that not all threads of its block reach",
        'if (i < 32) asm volatile("bar.sync 1, 64;" ::: "memory");', "b[i] = a[i];", threads=64,
    ),
    **{
        f"a {what} at two barriers, {meet}": fault(
            "BARRIER", 6, f"threads of one {what} wait at different barriers, here and at line 9", f"if ({which}) {{",
            "  b[i] = 1;", f"  {meet}", "} else {", "  b[i] = a[i];", f"  {meet}", "  b[i] += 3;", "}", threads=64,
        )
        for what, which in (("warp", "i % 2"), ("block", "i < 32"))
        for meet in ("__syncthreads();", 'asm volatile("bar.sync 1, 64;" ::: "memory");')
    },
    "a shuffle from a lane that does not take part": fault(
        "INACTIVE_LANE", 4, "lane 0 reads lane 16", "if (i < 16) b[i] = __shfl_xor_sync(0xffffu, a[i], 16);"
    ),
    "a lane that its own mask leaves out": fault(
        "INACTIVE_LANE", 4, "is not in its own mask", "b[i] = __shfl_xor_sync(0xffffu, a[i], 1);"
    ),
    "a shuffle that half of the warp never reaches": fault(
        "BARRIER", 4, "waits for lanes of its warp that never come here",
        "if (i < 16) b[i] = __shfl_xor_sync(~0u, a[i], 1);", "else while (i) b[i] = __ballot_sync(~0u, 1);",
    ),
    "a trap": fault("TRAP", 4, "stops itself with a trap", "if (a[i] == 5.f) __trap();", "b[i] = 2;"),
    "a loop without an end": fault(
        "ENDLESS", 5, "still runs after 20,000 instructions", "volatile float* c = b;", "while (c[0] == 0.f);"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_by_its_line(name):
    source, launch, kind, line, text = FAULTS[name]
    found = of(source, **launch)
    assert [each[:2] for each in found] == [(kind, line)], found
    assert text in found[0][2]


FINE = {
    "a barrier between writing and reading": fine(
        SHARED, "s[i] = a[i];", "__syncthreads();", "b[i] = s[i ^ 32];", threads=64
    ),
    "a barrier of the warp where that is enough": fine(SHARED, "s[i] = a[i];", "__syncwarp();", "b[i] = s[i ^ 1];"),
    "a tree of sums": fine(
        SHARED, "s[i] = a[i];", "for (int n = 32; n; n /= 2) {", "  __syncthreads();", "  if (i < n) s[i] += s[i + n];",
        "}", "if (i == 0) b[0] = s[0];", threads=64,
    ),
    "one value written by all blocks": fine("b[i] = a[i] * 3;", blocks=(4, 1, 1)),
    "one value written by all": fine(SHARED, "s[0] = 7;", "__syncthreads();", "b[i] = s[0];", threads=64),
    "read by all, then written by one": fine(
        SHARED, "s[i] = a[i];", "__syncthreads();", "float x = s[3];", "__syncthreads();",
        "if (i == 3) s[3] = x + s[3];", "__syncthreads();", "b[i] = s[3];", threads=64,
    ),
    "an early return before a barrier": fine(
        SHARED, "if (i >= 32) return;", "s[i] = a[i];", "__syncthreads();", "b[i] = s[31 - i];", threads=64
    ),
    "a copy that all wait for": fine(
        ASYNC, ASK, "__pipeline_wait_prior(0);", "__syncthreads();", "b[i] = s[i ^ 1].x;", count=128
    ),
    "a copy that a warp waits for": fine(
        ASYNC, ASK, "__pipeline_wait_prior(0);", "__syncwarp();", "b[i] = s[i ^ 1].x;", count=128
    ),
    "atomics of many threads": fine("atomicAdd(b, a[i]);", "atomicMax((int*)b + 1, i);", threads=128, blocks=(3, 1, 1)),
    "a flag that other threads set": fine(
        "volatile float* c = b;", "if (i < 32) { while (c[0] == 0.f); c[i + 1] = 5; } else c[0] = 1;", threads=64
    ),
    "named barriers of a producer and a consumer": fine(
        SHARED, 'if (i < 32) { s[i] = a[i]; asm volatile("bar.arrive 1, 64;" ::: "memory"); }',
        'else { asm volatile("bar.sync 1, 64;" ::: "memory"); b[i] = s[63 - i]; }', threads=64,
    ),
    "lanes of a warp that part and meet again": fine(
        "float x = a[i];", "for (int j = 0; j < i; ++j) x += 1;", "b[i] = __shfl_xor_sync(~0u, x, 1);"
    ),
    "a maximum by comparing and swapping": fine(
        "__shared__ int s; if (i == 0) s = 0;", "__syncthreads();", "int before, old = s;",
        "do { before = old; if (__int_as_float(old) < a[i]) old = atomicCAS(&s, before, __float_as_int(a[i])); }",
        "while (old != before);", "__syncthreads();", "b[i] = s;", threads=64,
    ),
    "memory of its own for each thread": fine(
        "float t[8]; for (int j = 0; j < 8; ++j) t[j] = i * j;", "b[i] = t[(int)a[i] % 8];"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_what_is_right_is_left_alone(name):
    source, launch = FINE[name]
    assert of(source, **launch) == []


def test_values_pass_through_shared_memory_atomics_and_flags():
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, dtype=np.float32)
    run(FINE["atomics of many threads"][0], a, b, threads=128, blocks=(3, 1, 1))
    assert b[0] == 3 * a.sum()
    assert b[1:2].view(np.int32)[0] == 127
    b[:] = 0
    run(FINE["a tree of sums"][0], a[:64].copy(), b, threads=64)
    assert b[0] == a[:64].sum()
    b[:] = 0
    run(FINE["a flag that other threads set"][0], a, b, threads=64)
    assert list(b[:33]) == [1, *[5] * 32]
    b[:] = 0
    run(FINE["lanes of a warp that part and meet again"][0], a, b)
    np.testing.assert_array_equal(b[:32], 2.0 * (np.arange(32) ^ 1))


MBARRIER = """
__device__ __forceinline__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const float* a, float* b) {
  __shared__ __align__(128) float s[256];
  __shared__ unsigned long long bar;
  const int i = threadIdx.x;
  if (i == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\\n" "fence.mbarrier_init.release.cluster;" :: "r"(at(&bar)));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(&bar)), "r"(1024u) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(s)), "l"(a), "r"(1024u), "r"(at(&bar)) : "memory");
  }
  SYNC
  WAIT
  b[i] = s[255 - i];
}
"""
WAIT = (
    'asm volatile("{ .reg .pred d;\\nagain: mbarrier.try_wait.parity.shared::cta.b64 d, [%0], 0;\\n@!d bra again; }"'
    ' :: "r"(at(&bar)) : "memory");'
)


def bulk(sync, wait):
    a, b = np.arange(256, dtype=np.float32), np.zeros(64, dtype=np.float32)
    source = MBARRIER.replace("SYNC", sync).replace("WAIT", wait)
    return findings(source, a, b, threads=64), b


@pytest.mark.parametrize(
    ("wait", "told"),
    [
        (WAIT, ""),
        ("", "without waiting for the copy there of kernel.cu:11"),
        (f"if (i % 32 == 0) {{ {WAIT} }} __syncwarp();", ""),  # a lane waits for those that it then meets
        (f"if (i == 0) {{ {WAIT} }} __syncwarp();", "thread 32 of block 0 reads shared memory without waiting for"),
    ],
)
def test_a_bulk_copy_is_waited_for_at_its_mbarrier(wait, told):
    found, b = bulk("__syncthreads();", wait)
    assert [(kind, line) for kind, line, _ in found] == ([("RACE", 15)] if told else [])
    if told:
        assert told in found[0][2]
    else:
        np.testing.assert_array_equal(b, 255 - np.arange(64))


SHORT_COPIES = """
__device__ __forceinline__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const float* a, float* b) {
  __shared__ __align__(128) float s[256];
  const int i = threadIdx.x;
  s[4 * i] = 7.f;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at(s + 4 * i)), "l"(a + 4 * i), "r"(SIZE)
               : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  b[i] = s[4 * i];
}
"""


def test_a_copy_of_no_bytes_reads_nothing_wherever_its_address_lies():
    """Lanes past the end of what there is let zeros come instead."""
    a, b = np.arange(1, 161, dtype=np.float32), np.full(64, -1, dtype=np.float32)
    assert findings(SHORT_COPIES.replace("SIZE", "i < 40 ? 16 : 0"), a, b, threads=64) == []
    np.testing.assert_array_equal(b, np.where(np.arange(64) < 40, 4 * np.arange(64) + 1, 0))
    found = findings(SHORT_COPIES.replace("SIZE", "i < 41 ? 16 : 0"), a, b, threads=64)
    assert [kind for kind, _, _ in found] == ["OUT_OF_BOUNDS"]
    assert "thread 40 of block 0 reads 16 bytes at byte 640" in found[0][2]


POLICY = ".reg .b64 hint; createpolicy.fractional.L2::evict_first.b64 hint, 1.0; "
TAKEN = {
    "as many as an operand says": ("", "cp.async.cg.shared.global [%0], [%1], 16, %2;", "i % 2 ? 4 : 16"),
    "with a hint to the cache": (
        POLICY, "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, hint;", "i % 2 ? 4 : 16",
    ),
    "none where a predicate holds": (
        ".reg .pred none; setp.ne.u32 none, %2, 0; ", "cp.async.cg.shared.global [%0], [%1], 16, none;", "i % 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_a_copy_reads_a_part_and_fills_up_with_zeros(name):
    before, copy, size = TAKEN[name]
    source = kernel(
        "__shared__ __align__(16) float s[256]; unsigned at = __cvta_generic_to_shared(s + 4 * i);",
        f'asm volatile("{{ {before}{copy} }}" :: "r"(at), "l"(a + 4 * i), "r"({size}) : "memory");',
        'asm volatile("cp.async.wait_all;" ::: "memory");',
        "b[i] = s[4 * i + 1];",
    )
    a, b = np.arange(256, dtype=np.float32), np.zeros(64, dtype=np.float32)
    assert findings(source, a, b, threads=64) == []
    np.testing.assert_array_equal(b, np.where(np.arange(64) % 2, 0, 4 * np.arange(64) + 1))


def copied_with_arrivals(wait):
    source = SHORT_COPIES.replace(
        "const int i = threadIdx.x;",
        """const int i = threadIdx.x;
  __shared__ unsigned long long bar;
  if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(&bar)) : "memory");
  __syncthreads();""",
    )
    arrive = 'asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(&bar)) : "memory");'
    source = source.replace('asm volatile("cp.async.wait_all;" ::: "memory");', arrive + wait).replace("SIZE", "16")
    a, b = np.arange(256, dtype=np.float32), np.zeros(64, dtype=np.float32)
    return findings(source.replace("b[i] = s[4 * i]", "b[i] = s[252 - 4 * i]"), a, b, threads=64), b


def test_copies_that_arrive_at_an_mbarrier_are_waited_for_there():
    found, b = copied_with_arrivals(WAIT)
    assert found == []
    np.testing.assert_array_equal(b, 252 - 4 * np.arange(64))
    for wait in ("", "__syncthreads();", "if (i < 32) " + WAIT):
        found, _ = copied_with_arrivals(wait)
        assert [kind for kind, *_ in found] == ["RACE"]
        assert "without waiting for the copy there" in found[0][2]


ROWS = """
__device__ __forceinline__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const float* a, float* b) {
  __shared__ __align__(128) float s[64];
  __shared__ unsigned long long bar;
  const int i = threadIdx.x;
  if (i == 0) asm("mbarrier.init.shared::cta.b64 [%0], 1;\\nfence.mbarrier_init.release.cluster;" :: "r"(at(&bar)));
  __syncthreads();
  if (i == 0) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(at(&bar)) : "memory");
  const unsigned size = BYTES;
  if (i < 4)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(s + PLACE)), "l"(a + blockIdx.x * 64 + PLACE), "r"(size), "r"(at(&bar)) : "memory");
  WAIT
  b[blockIdx.x * 64 + i] = s[i];
}
""".replace("WAIT", WAIT)


def rows(nbytes, place):
    a, b = np.arange(192, dtype=np.float32), np.zeros(192, dtype=np.float32)
    source = ROWS.replace("BYTES", nbytes).replace("PLACE", place)
    return findings(source, a, b, threads=64, blocks=(3, 1, 1)), a, b


@pytest.mark.parametrize(("nbytes", "place"), [("64", "16 * i"), ("i % 2 ? 112u : 16u", "(i / 2 * 32 + i % 2 * 4)")])
def test_bulk_copies_of_many_lanes_and_blocks(nbytes, place):
    found, a, b = rows(nbytes, place)
    assert found == []
    np.testing.assert_array_equal(b, a)


def test_bulk_copies_of_one_block_that_overlap_are_a_race():
    found, _, _ = rows("64", "(i * 12)")
    assert any(kind == "RACE" and "copies over" in text for kind, _, text in found)


def test_an_mbarrier_is_there_before_others_wait_at_it():
    found, _ = bulk("", WAIT)
    assert ("RACE", 14) in [(kind, line) for kind, line, _ in found]


def test_an_mbarrier_that_never_completes_is_told():
    source = (
        MBARRIER.replace("SYNC", "__syncthreads();").replace("WAIT", WAIT).replace('"r"(1024u) : "m', '"r"(2048u) : "m')
    )
    found = findings(source, np.arange(256, dtype=np.float32), np.zeros(64, dtype=np.float32), threads=64)
    assert [(kind, line) for kind, line, _ in found] == [("BARRIER", 14)]
    assert "an mbarrier whose phase never completes" in found[0][2]


TRAFFIC = {
    "side by side": ("b[i] = a[i];", (4, 4), False),
    "a column of a matrix": ("b[i] = a[i * 32];", (32, 4), True),
    "every other float": ("b[i] = a[2 * i];", (8, 4), True),
    "one place for all": ("b[i] = a[7];", (1, 1), False),
    "off by one float": ("b[i] = a[i + 1];", (5, 4), False),
    "vectors side by side": ("const float4 v = ((const float4*)a)[i]; b[i] = v.x + v.y + v.z + v.w;", (16, 16), False),
}


@pytest.mark.parametrize("name", TRAFFIC)
def test_sectors_of_a_request_are_counted(name):
    body, (sectors, least), is_scattered = TRAFFIC[name]
    _, traffic = run(kernel(body), np.arange(1024, dtype=np.float32), np.zeros(32, dtype=np.float32))
    [load] = [each for each in traffic if each.verb == "loads"]
    assert (load.at.line, load.requests, load.sectors, load.least_sectors) == (4, 1, sectors, least)
    assert load.is_scattered is is_scattered
    assert str(load) == f"kernel.cu:4: loads {sectors} sectors a request, where {least} hold the bytes"


def test_an_input_is_watched_for_bounds_and_not_for_races():
    program = read_program(compiled(kernel("b[i] = a[i + 1];", "if (i == 3) ((float*)a)[0] = 9;")), "k")
    a, b = np.arange(32, dtype=np.float32), np.zeros(32, dtype=np.float32)
    given = [Tensor("`a`", a.view(np.uint8), is_input=True), Tensor("`b`", b.view(np.uint8))]
    found, traffic = run_program(program, LaunchGrid((1, 1, 1), 32), given, counts_traffic=False)
    assert [finding.fault.name for finding in found] == ["OUT_OF_BOUNDS"]
    assert a[0] == 9
    assert traffic == ()


def test_a_barrier_counts_what_threads_bring():
    source = kernel(
        "int n = __syncthreads_count(a[i] > 20.f); int some = __syncthreads_or(a[i] == 63.f + blockIdx.x);",
        "int all = __syncthreads_and(a[i] < 63.5f - blockIdx.x);",
        "b[blockIdx.x * 64 + i] = n * 100 + some * 10 + all;",
    )
    a, b = np.arange(64, dtype=np.float32), np.zeros(128, dtype=np.float32)
    found, _ = run(source, a, b, threads=64, blocks=(2, 1, 1))
    assert found == ()
    np.testing.assert_array_equal(b, [4311] * 64 + [4300] * 64)


NAMED = {
    "each pair of warps at its own": ("{own}", "i ^ 32", set()),
    "each pair of warps at its own, for what the other pair wrote": ("{own}", "127 - i", {"RACE"}),
    "a warp of each pair hands on what its pair wrote": ("{own} {middle} {own}", "127 - i", set()),
    "the pairs that hand on are not met again": ("{own} {middle}", "127 - i", {"RACE"}),
    "a barrier of fewer threads than come": ("{fewer}", "i ^ 32", {"RACE"}),
    "a barrier of fewer threads than come, which one warp makes up": ("{fewer}", "i ^ 16", set()),
}


@pytest.mark.parametrize("name", NAMED)
def test_threads_at_different_barriers_do_not_meet(name):
    pattern, index, faults = NAMED[name]
    own = 'asm volatile("bar.sync %0, 64;" :: "r"(1 + i / 64) : "memory");'
    middle = 'if (i / 32 == 1 || i / 32 == 2) asm volatile("bar.sync 3, 64;" ::: "memory");'
    fewer = 'asm volatile("bar.sync 1, 32;" ::: "memory");'
    barriers = pattern.format(own=own, middle=middle, fewer=fewer)
    source = kernel("__shared__ float s[128];", "s[i] = a[i];", barriers, f"b[i] = s[{index}];")
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, dtype=np.float32)
    assert {kind for kind, *_ in findings(source, a, b, threads=128)} == faults


STORED = (
    "__shared__ __align__(128) float s[64]; unsigned at = __cvta_generic_to_shared(s);",
    "for (int n = 0; n < 2; ++n) {{", "  s[i] = a[i] + n;", "  {fence}", "  __syncthreads();",
    '  if (i == 0) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"',
    '    :: "l"(b + 64 * n), "r"(at) : "memory");',
    '  if (i == 0) asm volatile("cp.async.bulk.commit_group;" ::: "memory");',
    '  if (i == {waits}) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");', "  __syncthreads();", "}}",
)  # fmt: skip
PROXY_FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'


@pytest.mark.parametrize(
    ("fence", "waits", "fault"),
    [
        (PROXY_FENCE, 0, None),
        ("", 0, (10, "is written at kernel.cu:6, with no `fence.proxy.async` between")),
        (PROXY_FENCE, 1, (6, "shared memory is overwritten while the copy at kernel.cu:10 reads it")),
    ],
)
def test_a_bulk_store_reads_what_is_fenced_until_its_thread_waits_for_it(fence, waits, fault):
    source = kernel(*(line.format(fence=fence, waits=waits) for line in STORED))
    a, b = np.arange(64, dtype=np.float32), np.zeros(128, dtype=np.float32)
    found = findings(source, a, b, threads=64)
    assert [(kind, line) for kind, line, _ in found] == ([("RACE", fault[0])] if fault else [])
    if fault:
        assert fault[1] in found[0][2]
    np.testing.assert_array_equal(b, np.concatenate([a, a + 1]))


LAST = (
    "__shared__ float s[64]; __shared__ int n; if (i == 0) n = 0;",
    "__syncthreads(); s[i] = a[i]; __syncwarp();",
    "bool is_last = false; if (i % 32 == 0) {{ {before} is_last = atomicAdd(&n, 1) == 1; {after} }}",
    "if (is_last) for (int j = 0; j < 64; ++j) b[0] += s[j];",
)
FLAG = (
    "__shared__ float s[64]; __shared__ volatile int flag; if (i == 0) flag = 0;",
    "__syncthreads(); s[i] = a[i]; __syncwarp();",
    "if (i == 0) {{ {before} flag = 1; }} else if (i >= 32) {{ while (!flag); {after} b[i] = s[i - 32]; }}",
)
COUNTS = ("__shared__ int n[8]; if (i < 8) n[i] = 0; {before}", "atomicAdd(n + i % 8, 1); {after}", "b[i] = n[i % 8];")
FENCE, SYNC = "__threadfence_block();", "__syncthreads();"


@pytest.mark.parametrize(
    ("lines", "between"), [(LAST, FENCE), (FLAG, FENCE), (COUNTS, SYNC)], ids=["last", "flag", "counts"]
)
def test_threads_tell_each_other_by_atomics_and_flags(lines, between):
    """With fences, or barriers where counts are read plainly; without one of the two it is a race."""
    for before, after in ((between, between), ("", between), (between, "")):
        source = kernel(*(line.format(before=before, after=after) for line in lines))
        faults = {kind for kind, *_ in of(source, threads=64)}
        assert faults == (set() if before and after else {"RACE"}), (before, after)


def test_barriers_of_two_numbers_count_apart():
    source = kernel(
        "int n;",
        'asm volatile("{ .reg .pred p; setp.gt.f32 p, %1, %3; barrier.red.popc.u32 %0, %2, 32, p; }"'
        ' : "=r"(n) : "f"(a[i]), "r"(1 + i / 32), "f"(40.f) : "memory");',
        "b[i] = n;",
    )
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
    assert findings(source, a, b, threads=64) == []
    np.testing.assert_array_equal(b, [0] * 32 + [23] * 32)


ASSERTS = {
    "holds": ("assert(i < 64); b[i] = a[i];", ""),
    "holds, with a text": ('assert(i < 64 && "few, or (many)"); b[i] = a[i];', ""),
    "holds in a function": ("b[i] = checked(a, i);", ""),
    "holds in a loop": ("for (int n = 0; n < 4; ++n) { assert(a[n] >= 0); b[i] += a[n]; }", ""),
    "fails": ("assert(a[i] > 0); b[i] = a[i];", "assert(a[i] > 0) fails"),
    "fails in some lanes": ("if (i > 8) assert(a[i] < 9); b[i] = a[i];", "assert(a[i] < 9) fails"),
    "fails in a function": ("b[i] = checked(a, i + 1);", "assert(n < 32) fails"),
    "is the second of two": ("assert(i >= 0); assert(a[i] < 31); b[i] = a[i];", "assert(a[i] < 31) fails"),
    "is switched off": ("b[i] = a[i];\n#define NDEBUG\n#undef assert\n#define assert(x)\nassert(a[i] > 99);", ""),
}


@pytest.mark.parametrize("name", ASSERTS)
def test_a_kernel_that_asserts_is_checked_as_others_are(name):
    body, told = ASSERTS[name]
    function = "__device__ float checked(const float* a, int n) { assert(n < 32); return a[n]; }\n"
    found = of(function + KERNEL.format(body=body))
    assert [fault for fault, _, _ in found] == (["TRAP"] if told else [])
    assert all(told in text for _, _, text in found)
