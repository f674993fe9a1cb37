"""Bulk copies of boxes in the interpreter of PTX, by maps that kernels write: what arrives, and misuse by line."""

import numpy as np
import pytest
from ptx_data import findings, run

from gdnbench.errors import NotInterpretedError

ROWS, COLUMNS = 70, 160  # of a matrix of bytes
SLOTS = {
    "clear": "room[i] = 0;",
    "fill": "__syncwarp(); if (i == 0) {",
    "address": 'SET("global_address", "b64 [%0],", "l", x);',
    "rank": 'SET("rank", "b32 [%0],", "n", 1);',
    "box": 'SET("box_dim", "b32 [%0], 0,", "r", BOX / ELEMENT); SET("box_dim", "b32 [%0], 1,", "r", 64);',
    "sizes": 'SET("global_dim", "b32 [%0], 0,", "r", 160 / ELEMENT); SET("global_dim", "b32 [%0], 1,", "r", 70);',
    "strides": 'SET("global_stride", "b64 [%0], 0,", "l", 160ull);',
    "steps": 'SET("element_stride", "b32 [%0], 0,", "r", 1); SET("element_stride", "b32 [%0], 1,", "r", 1);',
    "element": 'SET("elemtype", "b32 [%0],", "n", ELEMENT - 1);',
    "layout": 'SET("interleave_layout", "b32 [%0],", "n", 0);',
    "pattern": 'SET("swizzle_mode", "b32 [%0],", "n", SWIZZLE);',
    "rest": 'SET("fill_mode", "b32 [%0],", "n", 0); }',
    "publish": "__syncwarp(); PUBLISH;",
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
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
#define SET(field, type, constraint, value) asm volatile( \\
  "tensormap.replace.tile." field ".shared::cta.b1024." type " %1;" :: "r"(at(room)), constraint(value) : "memory")
#define PUBLISH asm volatile( \\
  "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned " \\
  "[%0], [%1], 128; fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map), "r"(at(room)) : "memory")
#define EXPECT(n) \\
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(&there)), "r"(n) : "memory")
#define COPY COPY_AS("", "")
#define COPY_AS(form, more) asm volatile( \\
  "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes" form \\
  " [%0], [%1, {%2, %3}], [%4]" more ";" :: "r"(at(box)), "l"(map), "r"(column), "r"(row), "r"(at(&there)) : "memory")
#define WAIT asm volatile("{ .reg .pred p;\\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\\n" \\
  "@!p bra again; }" :: "r"(at(&there)) : "memory")
extern "C" __global__ void k(const unsigned char* x, u64* map, uint4* z, int column, int row) {
  __shared__ __align__(1024) uint4 box[512];
  __shared__ __align__(128) u32 room[32];
  __shared__ u64 there;
  const int i = threadIdx.x;
"""


def source(box=128, swizzle=3, element=1, **slots):
    assert slots.keys() <= SLOTS.keys()
    defined = f"#define BOX {box}\n#define SWIZZLE {swizzle}\n#define ELEMENT {element}\n"
    return defined + HEAD + "\n".join({**SLOTS, **slots}.values()) + "\n}\n"


def line(slot):
    return source().split(SLOTS[slot])[0].count("\n") + 1


def arrays():
    x = np.random.default_rng(1).integers(1, 256, ROWS * COLUMNS, dtype=np.uint8)
    return x, np.zeros(16, np.uint64), np.zeros(64 * 128, np.uint8)


def launch(text, column=0, row=0):
    return text, *arrays(), column, row


def found(text, column=0, row=0):
    return findings(*launch(text, column, row), arch="compute_90a", unwritten=(1, 2))


@pytest.mark.parametrize(("column", "row"), [(0, 0), (128, 0), (0, 64), (16, 69), (-16, -3), (160, 0), (0, 70)])
@pytest.mark.parametrize(("box", "swizzle", "element"), [(128, 3, 1), (64, 2, 1), (32, 1, 1), (64, 0, 1), (128, 3, 2)])
def test_a_box_is_that_of_the_matrix_and_zeros_lie_around(box, swizzle, element, column, row):
    x, maps, z = arrays()
    faults, _ = run(source(box, swizzle, element), x, maps, z, column // element, row, arch="compute_90a")
    assert faults == ()
    around = np.zeros((3 * 128, 3 * 256), np.uint8)
    around[128 : 128 + ROWS, 256 : 256 + COLUMNS] = x.reshape(ROWS, COLUMNS)
    expected = around[128 + row : 192 + row, 256 + column : 256 + column + box]
    got = z[: 64 * box].reshape(64, box // 16, 16)
    for r in range(64):  # rows of 128 bytes go by their number, of 64 by that of their pair, of 32 of their four
        key = 0 if swizzle == 0 else r // (128 // box) % (box // 16)
        for piece in range(box // 16):
            np.testing.assert_array_equal(got[r, piece ^ key], expected[r, 16 * piece : 16 * piece + 16])


FAULTS = {
    "a box that is not waited for": ({"wait": ""}, "RACE", "after", "without waiting for the copy there"),
    "a box that one thread waits for": ({"wait": "if (i == 3) WAIT;"}, "RACE", "after", "without waiting for the copy"),
    "a matrix with more rows than there are": (
        {"sizes": SLOTS["sizes"].replace("70", "71")}, "OUT_OF_BOUNDS", "copy", "of `a`, which has 11200",
    ),
    "fewer bytes than expected": ({"expect": "if (i == 0) EXPECT(64 * BOX + 16);"}, "BARRIER", "wait", "waits"),
    "a map that is read by all before it is written by one": (
        {"fill": "if (i == 5) {"}, "RACE", "address", "writes shared memory where thread",
    ),
    "a box at an address of 64 bytes": (
        {"copy": "if (i == 0) { uint4* const all = box; { uint4* const box = all + 4; COPY; } }"}, "MISALIGNED", "copy",
        "no multiple of 128",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_misuse_is_named_by_its_line(name):
    slots, fault, slot, text = FAULTS[name]
    all_found = found(source(**slots), row=10)
    told = [each for kind, at, each in all_found if (kind, at) == (fault, line(slot))]
    assert any(text in each for each in told), all_found


UNKNOWN = {
    "three dimensions": {"rank": SLOTS["rank"].replace("1)", "2)")},
    "every second element": {"steps": SLOTS["steps"].replace('"r", 1)', '"r", 2)')},
    "pieces that are interleaved": {"layout": SLOTS["layout"].replace("0)", "1)")},
    "not-a-numbers around": {"rest": SLOTS["rest"].replace("0)", "1)")},
    "rows longer than what is swizzled": {"pattern": SLOTS["pattern"].replace("SWIZZLE", "2")},
    "a map that is not there": {"publish": ""},
    "a copy to several blocks": {"copy": 'if (i == 0) COPY_AS(".multicast::cluster", ", 1");'},
    "rows of no whole pieces": {"sizes": SLOTS["sizes"].replace("160 / ELEMENT", "150")},
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_never_guessed(name):
    with pytest.raises(NotInterpretedError, match=rf"kernel\.cu:{line('copy')}: `cp\.async\.bulk\.tensor.+` cannot"):
        found(source(**UNKNOWN[name]))
