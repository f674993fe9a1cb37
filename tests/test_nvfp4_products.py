"""The products in nvfp4: oracles are sums of numbers, fp32 passes the gates, and mistakes do not, nor wrong kernels."""

import math
import operator
from functools import cache, reduce
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from bundled import CATALOG
from deep import cases_to_run
from faults import answer
from interpreted_ops import ALL, FIRST, UNTIL_WRONG, statuses
from nvfp4_data import (
    FACTOR_MISTAKES,
    NARROW_SUMS,
    TERM_MISTAKES,
    by_tile,
    codes,
    exact_sum,
    in_parts,
    in_steps,
    scaled,
    whole,
)
from write_kernels import write_changed

from gdnbench.launch.numerics import load_file, load_numerics
from gdnbench.machine.gpus import spec_of
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

pytestmark = pytest.mark.usefixtures("one_thread")

OPS = GEMM, GEMV, DUAL, GROUPED = ("nvfp4-gemm", "nvfp4-gemv", "nvfp4-dual-gemm", "nvfp4-grouped-gemm")
SIZES = {
    GEMM: {"M": 21, "N": 48, "K": 1024, "L": 2},
    GEMV: {"M": 37, "K": 2048, "L": 3},
    DUAL: {"M": 37, "N": 48, "K": 1024},
    GROUPED: {"rows": (21, 0, 1, 15), "N": 48, "K": 1024},
}
LONG = {GEMM: {"K": 16384, "L": 1}, GEMV: {"M": 9, "K": 16384, "L": 1}, DUAL: {"K": 7168}, GROUPED: {"K": 7168}}
SCENARIOS = [(op, scenario) for op in OPS for scenario in CATALOG.ops[op].scenarios]


@cache
def drawn(op, scenario, **sizes):
    """Inputs, the oracle's output and its roundoff, which tests leave as they are."""
    declared = CATALOG.ops[op]
    numerics, workload = load_numerics(declared, CATALOG.op_folders[op]), declared.workload(Shape(**SIZES[op] | sizes))
    t, scalars = numerics.make_inputs(workload, 1, "cpu", scenario)
    of_workload = () if op == GEMV else (workload,)
    [name] = (each.name for each in declared.outputs)
    return t, *(f(t, scalars, *of_workload)[name] for f in (numerics.oracle, numerics.roundoff))


def silu(x):
    return x * torch.sigmoid(x)


GATED = {
    "silu is missing": lambda x, y: x * y,
    "silu of the other product": lambda x, y: x * silu(y),
    "silu of both": lambda x, y: silu(x) * silu(y),
    "silu of the product": lambda x, y: silu(x * y),
    "sigmoid for silu": lambda x, y: torch.sigmoid(x) * y,
    "gelu for silu": lambda x, y: torch.nn.functional.gelu(x) * y,
    "exp without a sign": lambda x, y: x / (1 + x.exp()) * y,
    "the gate goes through fp16": lambda x, y: silu(x.half().float()) * y,
    "the other goes through fp16": lambda x, y: silu(x) * y.half().float(),
    "silu goes through fp16": lambda x, y: silu(x).half().float() * y,
}
AT_THE_END = ("C goes through bf16", "one element is an ulp off", "the last row is missing", "rows are shifted")
MISTAKES = {
    GEMM: (*FACTOR_MISTAKES, *TERM_MISTAKES, *AT_THE_END, "the first B for all", "scales of the row before"),
    GEMV: (*AT_THE_END, "no scales", "the first B for all"),
    DUAL: (*AT_THE_END, "no scales", *GATED, "the first B's scales for both"),
    GROUPED: (
        *(*AT_THE_END, "no scales", "the first B for all", "the next group's B", "the next group's scales"),
        *("a group's rows begin a row late", "groups of equal sizes", "a group of one row is left out"),
    ),
}


def ends_of(t, mistake=""):
    ends = t["ends"].tolist()
    if mistake == "a group's rows begin a row late":
        return [ends[0], *(min(end + 1, ends[-1]) for end in ends[1:])]
    if mistake == "groups of equal sizes":
        return [ends[-1] * group // (len(ends) - 1) for group in range(len(ends))]
    return ends


def factors(op, t, mistake=""):
    """Of each product both factors: bytes [rows, K / 2], and plain scales."""
    if op == DUAL:
        second = "sfb1" if mistake == "the first B's scales for both" else "sfb2"
        return [((t["A"], t["sfa"]), (t["B1"], t["sfb1"])), ((t["A"], t["sfa"]), (t["B2"], t[second]))]
    a, b, sfa, sfb = (t[name] for name in (("a", "b") if op == GEMV else ("A", "B")) + ("sfa", "sfb"))
    if op == GEMV:
        b, sfb = b[:, None], sfb[:, None]
    if op == GROUPED:
        ends = ends_of(t, mistake)
        rows = [(a[begin:end], sfa[begin:end]) for begin, end in pairwise(ends)]
    else:
        rows = list(zip(a, sfa, strict=True))
    if mistake == "scales of the row before":
        rows = [(bits, scales.view(torch.uint8).roll(1, 0).view(scales.dtype)) for bits, scales in rows]
    of = {"the first B for all": torch.zeros_like, "the next group's B": lambda each: each.roll(-1)}
    places = of.get(mistake, torch.clone)(torch.arange(len(b)))
    of_scales = places.roll(-1) if mistake == "the next group's scales" else places
    return [(row, (b[i], sfb[j])) for row, i, j in zip(rows, places, of_scales, strict=True)]


def computed(op, t, mistake="", total=whole):
    """The output, of plain scales; what follows the sums is fp32."""
    of_b = mistake if "scale" in mistake and mistake in FACTOR_MISTAKES else ""
    products = [total(scaled(*a, mistake), scaled(*b, of_b)).float() for a, b in factors(op, t, mistake)]
    if op == DUAL:
        c = GATED.get(mistake, lambda x, y: x / (1 + (-x).exp()) * y)(*products)
    else:
        c = torch.cat(products) if op == GROUPED else torch.stack(products)
    c = c[..., 0] if op == GEMV else c
    c = (c.bfloat16() if mistake == "C goes through bf16" else c).half()
    rows = 1 if op in {GEMM, GEMV} else 0  # the axis
    if mistake == "one element is an ulp off":
        c.view(torch.int16).view(-1)[58] += 1
    if mistake == "the last row is missing":
        c.select(rows, -1).zero_()
    if mistake == "a group of one row is left out":
        c[21] = 0.0
    return c.roll(1, dims=rows) if mistake == "rows are shifted" else c


def worst(op, scenario, mistake="", total=whole, **sizes):
    """The largest error, as a share of the limit."""
    t, expected, size = drawn(op, scenario, **sizes)
    gate = CATALOG.ops[op].gates[0]
    return float(roundoff_error(gate, computed(op, t, mistake, total), expected, size).max()) / gate.limit


# By element of the output: its product, and the row and the column of that.
PLACES = {
    GEMM: {(0, 0, 0): (0, 0, 0), (1, 20, 47): (1, 20, 47), (1, 3, 30): (1, 3, 30)},
    GEMV: {(0, 0): (0, 0, 0), (1, 17): (1, 17, 0), (2, 36): (2, 36, 0)},
    DUAL: {(0, 0): (0, 0, 0), (36, 47): (0, 36, 47), (3, 30): (0, 3, 30)},
    GROUPED: {
        (0, 0): (0, 0, 0),
        (20, 47): (0, 20, 47),
        (21, 30): (2, 0, 30),
        (22, 3): (3, 0, 3),
        (36, 47): (3, 14, 47),
    },
}


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
def test_the_oracle_is_the_sum(op, scenario):
    """By fractions, of which none is rounded."""
    t, c, _ = drawn(op, scenario)

    def exactly(product, row, column):
        return float(exact_sum(*((f[0][at], f[1][at]) for f, at in zip(pairs[product], (row, column), strict=True))))

    pairs = factors(op, t)
    for place, (product, row, column) in PLACES[op].items():
        right = exactly(product, row, column)
        if op == DUAL:
            right = right / (1 + math.exp(-right)) * exactly(1, row, column)
        assert float(c[place]) == pytest.approx(right, rel=1e-12, abs=2**-30)


@pytest.mark.parametrize("op", [GEMM, DUAL, GROUPED])
def test_both_layouts_hold_the_same_scales(op):
    """Each group's rows begin with a tile."""
    sizes = {"rows": (130, 0, 3), "N": 144} if op == GROUPED else {"M": 130, "N": 144}
    plain, *right = drawn(op, "typical", **sizes)
    tiled, *found = drawn(op, "typical", **sizes, TILED=1)
    assert all(map(torch.equal, right, found))
    for name in (each for each in plain if each.startswith("sf")):
        of_plain, of_tiled = ((each[name][-1] if each[name].dim() == 3 else each[name]) for each in (plain, tiled))
        second = {130: 256, 132: 258} if (op, name) == (GROUPED, "sfa") else {len(of_plain) - 1: len(of_plain) - 1}
        for row, in_tiles in ({0: 0, 33: 33, 127: 127} | second).items():
            for block in (0, 5, 62, 63):
                assert by_tile(of_tiled, in_tiles, block) == float(of_plain[row, block])


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
def test_fp32_passes_by_far(op, scenario):
    for total in (in_steps(torch.float32, 1), in_steps(torch.float32, 64), in_parts(torch.float32, 16)):
        assert worst(op, scenario, total=total) < 0.3
    assert worst(op, scenario, total=in_steps(torch.float32, 16), **LONG[op]) < 0.3


@pytest.mark.parametrize(("op", "mistake"), [(op, mistake) for op in OPS for mistake in MISTAKES[op]])
def test_a_mistake_fails_in_some_scenario(op, mistake):
    found = {scenario: worst(op, scenario, mistake) for scenario in CATALOG.ops[op].scenarios}
    assert max(found.values()) > 10, found


def in_terms_of_bf16(a, b):
    return (a[:, None] * b).bfloat16().double().sum(-1)


WRONG_SUMS = NARROW_SUMS | {"parts in fp16": in_parts(torch.float16, 4), "terms in bf16": in_terms_of_bf16}


@pytest.mark.parametrize("how", WRONG_SUMS)
@pytest.mark.parametrize("op", OPS)
def test_sums_in_fewer_bits_fail(op, how):
    found = {scenario: worst(op, scenario, total=WRONG_SUMS[how]) for scenario in CATALOG.ops[op].scenarios}
    assert max(found.values()) > 10, found


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
def test_outputs_are_fp16s(op, scenario):
    t, c, _ = drawn(op, scenario, **LONG[op])
    assert float(c.square().mean().sqrt()) > 0.05
    assert float(c.abs().max()) < 65504 / 2
    if op == DUAL and scenario != "like-signs":
        gates = whole(*(scaled(*each) for each in factors(op, t)[0]))
        assert 0.2 < float((gates < 0).double().mean()) < 0.8


def test_every_code_and_scales_of_zero_are_drawn():
    t, *_ = drawn(GEMM, "all-codes")
    assert torch.unique(codes(t["A"])).tolist() == torch.unique(codes(t["B"])).tolist() == list(range(16))
    t, *_ = drawn(GEMV, "small-scales")
    assert torch.unique(t["sfa"].float()).tolist() == [number * 2.0**-9 for number in range(8)]


@pytest.mark.parametrize(
    ("op", "sizes", "products", "most"),
    [
        (GEMM, {"M": 128, "N": 7168, "K": 16384, "L": 1}, 7168 * 16384, 1.05),
        (GEMV, {"M": 7168, "K": 16384, "L": 1}, 7168 * 16384, 1.001),
        (DUAL, {"M": 512, "N": 4096, "K": 7168}, 2 * 4096 * 7168, 1.2),
        (GROUPED, {"rows": (128,) * 8, "N": 4096, "K": 7168}, 8 * 4096 * 7168, 1.1),
        (GROUPED, {"rows": (*(128,) * 8, 0), "N": 4096, "K": 7168}, 8 * 4096 * 7168, 1.1),
    ],
)
def test_what_bounds_it(op, sizes, products, most):
    """The larger factors' numbers and scales, of groups without rows none; and the peak for numbers of four bits."""
    declared, workload = CATALOG.ops[op], CATALOG.ops[op].workload(Shape(**sizes))
    moved = products * 9 // 16
    assert moved < declared.copy_bytes(workload) <= declared.traffic_bytes(workload) < most * moved
    rows = {GEMV: 1, GROUPED: 128}.get(op, sizes.get("M"))
    assert declared.flops(workload) == {"fp4": 2 * rows * products}
    peaks = spec_of(gpu_slug("NVIDIA H200")).peak_tflops
    assert "fp4" not in peaks  # then fp16's, to which they are widened
    assert op == GEMV or declared.instead["fp4"] in peaks


def test_the_contests_workloads_are_there_in_both_layouts():
    plain, tiled = (CATALOG.ops[GEMM].suite(name).workloads for name in ("nvidia", "nvidia-tiled"))
    assert [(each.N, each.K) for each in plain] == [(7168, 16384), (4096, 7168), (7168, 2048)]
    assert [str(each).replace("L=1 tiled", "").strip() for each in tiled] == [str(each) for each in plain]


@pytest.mark.parametrize(
    ("op", "sizes", "element", "low", "high"),
    [
        (GEMM, {"M": 3, "N": 16, "K": 256}, (1, 2, 9), (("B", 1, 9),), (("sfb", 1, 9),)),
        (GEMV, {"M": 5, "K": 1792, "L": 2}, (1, 4), (("a", 1, 4),), (("sfa", 1, 4),)),
        (DUAL, {"M": 3, "N": 16, "K": 256}, (2, 9), (("B1", 9), ("sfb1", 9)), (("B2", 9), ("sfb2", 9))),
        (GROUPED, {"rows": (2, 0, 1), "N": 16, "K": 256}, (2, 9), (("B", 2, 9),), (("sfb", 2, 9),)),
    ],
)
def test_the_reading_floor_leaves_what_it_read(op, sizes, element, low, high):
    t, c, _ = drawn(op, "all-codes", **sizes)
    [left] = CATALOG.ops[op].copy(t, CATALOG.ops[op].workload(Shape(**SIZES[op] | sizes))).values()
    assert (left.dtype, left.shape) == (torch.float16, c.shape)

    def folded(places):
        return reduce(operator.xor, (byte for name, *at in places for byte in t[name].view(torch.uint8)[*at].tolist()))

    assert int(left.view(torch.int16)[element]) & 0xFFFF == folded(low) | folded(high) << 8


@pytest.mark.parametrize(
    ("op", "sizes", "told"),
    [
        *((op, {"K": 128}, "K=128 is no multiple of 256") for op in OPS),
        *((op, {"N": 40}, "N=40 is no") for op in (GEMM, DUAL, GROUPED)),
        (GROUPED, {"rows": (0, 0)}, "every group is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(op, sizes, told):
    assert told in CATALOG.ops[op].check(CATALOG.ops[op].workloads.workload(sizes))


PLAIN = {
    GEMM: "M=37 N=48 K=256 L=2 plain",
    GEMV: "M=19 K=256 L=3",
    DUAL: "M=37 N=80 K=256 plain",
    GROUPED: "rows=37+0+5 N=80 K=256 plain",
}
OTHER = {
    GEMM: "M=130 N=144 K=256 L=1 tiled",
    GEMV: "M=13 K=1792 L=2",
    DUAL: "M=130 N=144 K=256 tiled",
    GROUPED: "rows=0+130+1 N=144 K=256 tiled",
}
KERNELS = {
    GEMM: ("scaled", "upcast", "floor-read"),
    GEMV: ("triton", "v1", "v2", "v3:HELD=2", "floor-read"),
    DUAL: ("scaled", "upcast", "floor-read"),
    GROUPED: ("scaled", "upcast", "floor-read"),
}
WITH_PARAMS = {
    GEMM: (
        "scaled:BN=256:BK=128",
        "upcast:BM=16:BN=128:BK=256:SPLIT=1",
        "upcast:BM=64:BK=64:SPLIT=8",
        "v3:BLOCKS=3",
        "v4",
    ),
    GEMV: (
        *("triton:BM=16:BK=512", "triton:BM=1:BK=4096", "v2:WARPS=4:AHEAD=6:BLOCKS=1"),
        *("v2:HELD=1:WARPS=4:BLOCKS=1", "v3:WARPS=4:EACH=2:RING=1:BLOCKS=1", "floor-read:WARPS=2:EACH=1"),
    ),
    DUAL: ("scaled:BN=32:BK=128", "upcast:BM=16:BN=128:BK=128", "floor-read:WARPS=32:EACH=1", "v1:BLOCKS=3", "v2"),
    GROUPED: ("scaled:BN=32:BK=128", "upcast:BM=16:BN=128:BK=64", "floor-read:WARPS=32:EACH=1", "v1:BLOCKS=3", "v2"),
}
TRIED = [
    *((op, kernel, PLAIN[op], FIRST if kernel == "floor-read" else ALL) for op in OPS for kernel in KERNELS[op]),
    (GEMM, "v1", PLAIN[GEMM], FIRST),
    (GEMM, "v2", "M=130 N=16 K=256 L=1 plain", FIRST),
    *((op, "upcast", OTHER[op], FIRST) for op in (GEMM, DUAL, GROUPED)),
    # make test-all has these, too.
    *((op, kernel, PLAIN[op], ALL) for op in OPS for kernel in WITH_PARAMS[op]),
    *(
        (op, kernel, OTHER[op], FIRST)
        for op in OPS
        for kernel in (*KERNELS[op], *WITH_PARAMS[op])
        if kernel != "upcast"
    ),
    (GEMM, "v1:BN=128:SPLIT=1", OTHER[GEMM], FIRST),
    (GEMM, "v1:BN=128:SPLIT=1:STAGES=2:AHEAD=3", "M=1 N=16 K=512 L=1 plain", FIRST),  # rings go round
    (GEMM, "v2:SPLIT=1:AHEAD=3", "M=3 N=48 K=512 L=1 tiled", FIRST),
    (GEMM, "v4:SPLIT=3:HELPERS=2:HELPED=3", "M=130 N=272 K=1024 L=2 plain", FIRST),  # parts of two steps and of one
    (GROUPED, "v2:BLOCKS=3", "rows=65+80+100+30+200 N=272 K=256 plain", FIRST),  # products of all widths
]
WRONG, UNSAFE = "wrong-numbers", "unsafe"
# Stages are filled again; and K is in two parts.
RING_1, PARTS_1 = "v1:BN=128:SPLIT=1:STAGES=2:AHEAD=2", "v1:BN=128:SPLIT=2"
RING_2, PARTS_2 = "v2:SPLIT=1", "v2:SPLIT=2"
AT, FEW = {GEMM: "M=37 N=16 K=512 L=2 tiled", GEMV: "M=6 K=1792 L=2"}, "M=5 N=16 K=512 L=1 plain"
AT |= {DUAL: "M=37 N=16 K=256 tiled", GROUPED: "rows=5+0+37 N=16 K=256 tiled"}
SPOILED = {
    "halves of bytes exchanged in a factor": (GEMM, "upcast", "widened(b, scale_b)", "widened(b >> 4, scale_b)", WRONG),
    "a stage is filled while products read it": (
        *(GEMM, RING_1, "if (step >= STAGES) wait(", "if (step < 0) wait(", UNSAFE),
    ),
    "scales that other lanes still copy": (GEMM, RING_1, "__syncwarp();", "", UNSAFE),
    "sums that other blocks still store": (
        *(GEMM, PARTS_2, "synchronise_cluster();\n  GDN", "__syncthreads();\n  GDN", UNSAFE),
    ),
    "A that products are not shown": (GEMM, RING_2, "  fence_async_proxy();", "", UNSAFE),
    "scales of the first matrix for all": (GEMM, "upcast", "sfb += matrix", "sfb += 0", WRONG),
    "the next block's scale": (GEMM, "upcast", "(first // 16 + tl", "((first // 16 ^ 1) + tl", UNSAFE),  # past the last
    "a sum is added twice": (
        *(GEMM, "upcast", "part * elements + place", "(part + part % 2) % SPLIT * elements + place", WRONG),
    ),
    "a sign is left out": (GEMV, "v2", "low, first ^ SIGNS", "low, first", WRONG),
    "the first vector for all matrices": (GEMV, "triton", "b + matrix * (K // 2)", "b + 0 * (K // 2)", WRONG),
    "silu of a sum that is too small": (DUAL, "upcast", "gated(gate * FROM_BOTH", "gated(gate", WRONG),
    "the first B's scales for both": (DUAL, "scaled", "tile_of_scales(sfb2", "tile_of_scales(sfb1", WRONG),
    "rows are shifted": (GROUPED, "upcast", "A + rows[:, None]", "A + tl.maximum(rows[:, None] - 1, 0)", WRONG),
    "the next group's B": (
        *(GROUPED, "scaled", "(is_here, each, group)", "(is_here, tl.minimum(each + 1, 2), group)", WRONG),
    ),
    # make test-all has these, too.
    "the sign is a bit off": (GEMM, "upcast", "<< 12", "<< 11", WRONG),
    "tiles of scales as if they were 128 in a row": (
        *(GEMM, "upcast", "r % 32 * 16 + r % 128 // 32 * 4", "r % 128 * 4", WRONG),
    ),
    "sums in fp16": (
        *(GEMM, "upcast", "sums += tl.load(", "sums = sums.to(tl.float16).to(tl.float32) + tl.load(", WRONG),
    ),
    "rows of the matrix before": (GEMM, "scaled", "A + matrix * M", "A + (matrix - matrix % 2) * M", WRONG),
    "scales exchanged": (GEMM, "scaled", "sfa += matrix * rows_sfa", "sfa += (1 - matrix) * rows_sfa", WRONG),
    "tiles of scales of plain ones": (GEMM, "scaled", "if TILED:", "if not TILED:", WRONG),
    "a sign that stays where it was": (GEMM, RING_1, "0x70007000", "0x00007000", WRONG),
    "the scale of the other row": (GEMM, RING_1, "scale_pair(from[8 * row])", "scale_pair(from[0])", WRONG),
    "the sums of one part alone": (GEMM, PARTS_1, "part < PARTS; ++part", "part < PARTS - 1; ++part", WRONG),
    "operands that are written while products read them": (
        *(GEMM, RING_1, "wait_for_products<1>();", "wait_for_products<4>();", UNSAFE),
    ),
    "sums that are not waited for": (GEMM, RING_1, "wait_for_products<0>();", "", UNSAFE),
    "A is widened where products read": (GEMM, RING_2, "if (step >= STAGES) wait(", "if (step < 0) wait(", UNSAFE),
    "the sums of one block for all": (GEMM, PARTS_2, "load_of(each,", "load_of(0,", WRONG),
    "a magnitude is 5 for 4": (GEMV, "v3", "0x0c080604", "0x0c0a0604", WRONG),
    "blocks of 32": (
        *(GEMV, "triton", "first // 16 + of_blocks, mask=is_block"),
        *("first // 16 + of_blocks // 2 * 2, mask=is_block", WRONG),
    ),
    "silu of the other product": (DUAL, "upcast", "(gate * FROM_BOTH, other *", "(other * FROM_BOTH, gate *", WRONG),
    "C goes through bf16": (DUAL, "scaled", "gated(gate, other).to", "gated(gate, other).to(tl.bfloat16).to", WRONG),
    "scales of groups one after the other": (
        *(GROUPED, "scaled", "tl.cdiv(end - begin, 128) * 128 if TILED else ", "", WRONG),
    ),
    "the first group's scales for all": (GROUPED, "scaled", "sfb += group", "sfb += 0", WRONG),
    "a flag that is read too early": (DUAL, "v1:BLOCKS=3", "__syncthreads();\n  if (!is", "if (!is", UNSAFE),
    "the first scales": (GROUPED, "v2", "sfb + tile.group * rows_sfb", "sfb + 0 * rows_sfb", WRONG),
    "the tile after the last one that is told": (GEMM, "v3:BLOCKS=3", "number % TILES] =", "0] =", UNSAFE),
    "sums that other blocks have not stored yet": (
        *(GEMM, "v4", "meanwhile();\n  if (PARTS > 1) synchronise_cluster();", "meanwhile();", UNSAFE),
    ),
    "the scale of the word before": (DUAL, "v2", "? twice<1>(scales)", "? twice<0>(scales)", WRONG),
}  # fmt: skip


@pytest.fixture(scope="module")
def interpreted(request, tmp_path_factory):
    """What becomes of kernels on the inputs named, and of copies with a mistake on all until one shows it."""
    root, copies = tmp_path_factory.mktemp("kernels"), {}
    for number, case in enumerate(cases_to_run(request, "test_a_spoiled_kernel_is_refused")):
        op, label, right, wrong, _ = SPOILED[case["mistake"]]
        kernel, colon, params = label.partition(":")
        write_changed(CATALOG.entries[f"{op}-{kernel}"], f"{op}-spoiled-{number}", root, (right, wrong))
        by_hand = op == GEMM and kernel in {"v1", "v2"}
        copies[case["mistake"]] = op, f"{op}-spoiled-{number}{colon}{params}", FEW if by_hand else AT[op]
    cases = cases_to_run(request, "test_kernels_are_right_where_there_is_no_gpu")
    right = {(case["op"], f"{case['op']}-{case['kernel']}", case["workload"]): case["on"] for case in cases}
    found = statuses(right | dict.fromkeys(copies.values(), UNTIL_WRONG), root)
    return found | {mistake: found[copy] for mistake, copy in copies.items()}


@pytest.mark.parametrize(("op", "kernel", "workload", "on"), TRIED)
def test_kernels_are_right_where_there_is_no_gpu(interpreted, op, kernel, workload, on):
    assert interpreted[op, f"{op}-{kernel}", workload] == ("ok", ""), on


@pytest.mark.parametrize("mistake", SPOILED)
def test_a_spoiled_kernel_is_refused(interpreted, mistake):
    assert interpreted[mistake][0] == SPOILED[mistake][-1], interpreted[mistake]


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        (GEMM, "M=37 N=144 K=256 L=2 scales=plain,tiled"),
        (GEMV, "M=5 L=2 K=256,1792"),
        (DUAL, "M=37 N=144 K=256 scales=plain,tiled"),
        (GROUPED, "rows=37+0+5 N=144 K=256 scales=plain,tiled"),
    ],
)
def test_the_reference_is_right_on_a_cpu(op, sizes):
    done = answer("verify", f"{op}-reference", "--gpu", "cpu", "--shape", sizes)
    assert done.code == 0, done.err
    assert "fail" not in done.out


@pytest.mark.parametrize("tiled", [0, 1])
def test_scaled_mm_is_given_what_it_takes(monkeypatch, tiled):
    """On a CPU its sums are made here, of scales as cuBLAS lays them out; of sizes it has checks of its own there."""
    op, sizes, real = CATALOG.ops[GEMM], {"M": 37, "N": 80, "K": 256, "L": 2, "TILED": tiled}, torch._scaled_mm

    def scaled_mm(a, b, *scales, out_dtype):
        real(*(each.to("meta") for each in (a, b, *scales)), out_dtype=out_dtype)
        x, y = (
            scaled(
                each.view(torch.uint8), torch.tensor([[by_tile(of, r, c) for c in range(16)] for r in range(len(each))])
            )
            for each, of in zip((a, b.T), scales, strict=True)
        )
        return (x @ y.T).to(out_dtype)

    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    entry, workload = CATALOG.entries["nvfp4-gemm-scaled-mm"], op.workload(Shape(**sizes))
    t, expected, _ = drawn(GEMM, "all-codes", **sizes)
    [found] = load_file(entry.source).bind(SimpleNamespace(**t), workload, None)()
    assert torch.equal(found, expected.half())
    fit = {gpu: entry.kernel.fits(gpu) for gpu in ("sm_90", "sm_100")}
    assert fit == {"sm_90": False, "sm_100": True}
