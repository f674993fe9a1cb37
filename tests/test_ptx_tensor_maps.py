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


def found(text, rows=ROWS, box=(64, BOX), swizzle=128, **launch):
    values = np.random.default_rng(1).integers(1, 256, ROWS * COLUMNS, dtype=np.uint8)
    matrix = Tensor("`x`", values)
    mapped = MappedTensor(matrix, (rows, COLUMNS), box, 1, swizzle)
    return findings(text, mapped, matrix, np.zeros(64 * BOX, np.uint8), arch="compute_90a", unwritten=(2,), **launch)


def test_one_block_of_a_cluster_may_bring_a_box_alone():
    text = source(begin=f"if (blockIdx.x > 0) return; {SLOTS['begin']}").replace("void k", "void __cluster_dims__(2) k")
    assert found(text, blocks=(2, 1, 1)) == []


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


STORED = (
    HEAD.replace("const u64* x, uint4* z", "uint4*")
    + """
  for (int n = i; n < 4 * BOX; n += 32) box[n] = make_uint4(n, n, n, n + 1);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (i == 0) asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3]; "
    "cp.async.bulk.commit_group;" :: "l"(&map), "r"(64), "r"(-3), "r"(at(box)) : "memory");
  if (i == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  __syncthreads();
  box[i] = uint4{};
}
"""
)


def stored(change=("", "")):
    """What is found, and the bytes of a matrix after a box was stored over its edges; `change` replaces a text."""
    assert change[0] in STORED
    content = np.zeros(ROWS * COLUMNS, np.uint8)
    mapped = MappedTensor(Tensor("`x`", content), (ROWS, COLUMNS), (64, BOX), 1, 128)
    return findings(STORED.replace(*change), mapped, np.zeros(16, np.uint8), arch="compute_90a"), content


def test_a_box_is_stored_as_far_as_it_lies_in_the_tensor():
    told, content = stored()
    pieces = np.arange(64 * 8).reshape(64, 8)
    pieces = np.take_along_axis(pieces, np.arange(8) ^ np.arange(64)[:, None] % 8, axis=1)
    right = np.zeros((ROWS, COLUMNS), np.uint8)
    words = np.repeat(pieces[:, :, None], 4, axis=2) + np.arange(4) // 3
    right[:61, 64:] = words.astype("<u4").view(np.uint8).reshape(64, BOX)[3:, : COLUMNS - 64]
    assert told == []
    assert np.array_equal(content.reshape(ROWS, COLUMNS), right)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (('"cp.async.bulk.wait_group.read 0;"', '""'), "is overwritten while the copy"),
        (('"fence.proxy.async.shared::cta;"', '""'), "with no `fence.proxy.async` between"),
        (('"r"(at(box))', '"r"(at(box) + 64)'), "not a multiple of 128"),
    ],
)
def test_misuse_of_stores_is_found(change, text):
    assert any(text in each for _, _, each in stored(change)[0])


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
    "a copy for a pair of blocks": {"copy": 'if (i == 0) COPY_AS(".cta_group::2", "");'},
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_never_guessed(name):
    with pytest.raises(NotInterpretedError, match=CANNOT):
        found(source(**UNKNOWN[name]))


@pytest.mark.parametrize(("box", "swizzle"), [((1, 64, BOX), 128), ((64, 64), 128)])
def test_a_map_of_another_rank_or_of_rows_shorter_than_the_swizzle_is_not_guessed(box, swizzle):
    with pytest.raises(NotInterpretedError, match=CANNOT):
        found(source(), box=box, swizzle=swizzle)
