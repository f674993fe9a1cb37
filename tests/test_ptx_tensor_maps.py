"""Bulk copies of boxes in the interpreter of PTX: misuse is named by its line, and nothing is guessed.

Where each piece of a box lies is tested where maps are declared: test_tensor_map_arguments.py.
"""

import numpy as np
import pytest
from ptx_data import findings

from gdnbench.errors import NotInterpretedError
from gdnbench.ptx.segments import MappedTensor, Tensor

ROWS, COLUMNS, BOX = 70, 160, 128  # of a matrix of bytes, of which a box has 64 rows of 128
SLOTS = {
    "begin": r'if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" '
    ':: "r"(at(&there))); __syncthreads();',
    "expect": "if (i == 0) EXPECT(64 * BOX);",
    "copy": "if (i == 0) COPY;",
    "wait": "WAIT;",
    "after": "for (int n = i; n < 4 * BOX; n += 32) z[n] = box[n];",
}
HEAD = """
typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map { unsigned char bytes[128]; };
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
#define BOX 128
#define EXPECT(n) \\
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(&there)), "r"(n) : "memory")
#define COPY COPY_AS("", "")
#define COPY_BY(map, form, more) asm volatile( \\
  "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes" form \\
  " [%0], [%1, {%2, %3}], [%4]" more ";" :: "r"(at(box)), "l"(map), "r"(0), "r"(10), "r"(at(&there)) : "memory")
#define COPY_AS(form, more) COPY_BY(&map, form, more)
#define WAIT asm volatile("{ .reg .pred p;\\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\\n" \\
  "@!p bra again; }" :: "r"(at(&there)) : "memory")
extern "C" __global__ void k(const __grid_constant__ Map map, const u64* x, uint4* z) {
  __shared__ __align__(1024) uint4 box[512];
  __shared__ u64 there;
  const int i = threadIdx.x;
"""


def source(**slots):
    assert slots.keys() <= SLOTS.keys()
    return HEAD + "\n".join({**SLOTS, **slots}.values()) + "\n}\n"


def line(slot):
    return source().split(SLOTS[slot])[0].count("\n") + 1


def found(text, rows=ROWS, box=(64, BOX), swizzle=128):
    values = np.random.default_rng(1).integers(1, 256, ROWS * COLUMNS, dtype=np.uint8)
    matrix = Tensor("`x`", values)
    mapped = MappedTensor(matrix, (rows, COLUMNS), box, 1, swizzle)
    return findings(text, mapped, matrix, np.zeros(64 * BOX, np.uint8), arch="compute_90a", unwritten=(2,))


def test_a_box_that_is_waited_for_is_no_fault():
    assert found(source()) == []


FAULTS = {
    "a box that is not waited for": ({"wait": ""}, "RACE", "after", "without waiting for the copy there"),
    "a box that one thread waits for": ({"wait": "if (i == 3) WAIT;"}, "RACE", "after", "without waiting for the copy"),
    "fewer bytes than expected": ({"expect": "if (i == 0) EXPECT(64 * BOX + 16);"}, "BARRIER", "wait", "waits"),
    "a box at an address of 64 bytes": (
        {"copy": "if (i == 0) { uint4* const all = box; { uint4* const box = all + 4; COPY; } }"}, "MISALIGNED", "copy",
        "not a multiple of 128",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_misuse_is_named_by_its_line(name):
    slots, fault, slot, text = FAULTS[name]
    all_found = found(source(**slots))
    told = [each for kind, at, each in all_found if (kind, at) == (fault, line(slot))]
    assert any(text in each for each in told), all_found


def test_a_map_of_more_rows_than_there_are_reads_out_of_bounds():
    told = [text for kind, at, text in found(source(), rows=71) if (kind, at) == ("OUT_OF_BOUNDS", line("copy"))]
    assert any("of `x`, which has 11200" in text for text in told)


CANNOT = rf"kernel\.cu:{line('copy')}: `cp\.async\.bulk\.tensor.+` cannot"
UNKNOWN = {
    "a map that is not there": {"copy": 'if (i == 0) COPY_BY(x, "", "");'},
    "a copy to several blocks": {"copy": 'if (i == 0) COPY_AS(".multicast::cluster", ", 1");'},
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_never_guessed(name):
    with pytest.raises(NotInterpretedError, match=CANNOT):
        found(source(**UNKNOWN[name]))


@pytest.mark.parametrize(("box", "swizzle"), [((1, 64, BOX), 128), ((64, 64), 128)])
def test_a_map_of_another_rank_or_of_rows_shorter_than_the_swizzle_is_not_guessed(box, swizzle):
    with pytest.raises(NotInterpretedError, match=CANNOT):
        found(source(), box=box, swizzle=swizzle)
