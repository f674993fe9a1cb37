"""The product in fp8 with a table of positions: its oracle is the sum, tensor cores pass its gate, mistakes do not."""

import re
from fractions import Fraction
from functools import cache

import planted
import pytest
import torch
from bundled import CATALOG
from faults import answer
from nvfp4_data import NARROW_SUMS, in_steps, whole
from verified_kernels import gate_statuses
from write_kernels import write_changed

from gdnbench.launch.numerics import load_numerics
from gdnbench.machine.gpus import spec_of
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

OP = CATALOG.ops["fp8-gemm-pos"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
GATE = OP.gates[0]
SQUARE = {"M": 64, "N": 64, "P": 49}
HOPPER_BITS = 13  # behind the leading one
INSTRUCTION = 32


@cache
def drawn(scenario, seed=1, **sizes):
    """Inputs, the oracle's C and its roundoff, which tests leave as they are."""
    workload = OP.workload(Shape(**(sizes or SQUARE)))
    t, scalars = NUMERICS.make_inputs(workload, seed, "cpu", scenario)
    return t, NUMERICS.oracle(t, scalars)["C"], NUMERICS.roundoff(t, scalars)["C"]


def factors(t):
    return t["A"].double(), t["B"].double()


def cut_off(x, largest):
    """Towards zero, to a whole multiple of 2^-13 of the power of two below `largest`."""
    unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest.clamp(min=1e-30)).exponent - 1 - HOPPER_BITS)
    return torch.trunc(x / unit) * unit


def on_hopper(a, b, promoted=0):
    """Sums as Hopper's tensor cores are found to make them, 32 products at once, with every addend cut off.

    Promoted are those of so many products to fp32, each for itself; 0 for none.
    """
    total = torch.zeros(len(a), len(b), dtype=torch.float32)
    sums = torch.zeros(len(a), len(b), dtype=torch.float64)
    for k in range(0, a.shape[1], INSTRUCTION):
        terms = a[:, None, k : k + INSTRUCTION] * b[None, :, k : k + INSTRUCTION]
        largest = torch.maximum(terms.abs().amax(-1), sums.abs())
        sums = cut_off(terms, largest[..., None]).sum(-1) + cut_off(sums, largest)
        sums = cut_off(sums, sums.abs())
        if promoted and (k + INSTRUCTION) % promoted == 0:
            total, sums = total + sums.float(), torch.zeros_like(sums)
    return (total + sums.float()).double()


def computed(t, sums=whole):
    """C in bf16; scales and the addition in fp32."""
    rows = torch.arange(len(t["A"])) % len(t["table"])
    return (t["scale_a"] * t["scale_b"] * sums(*factors(t)).float() + t["table"][rows].float()).bfloat16()


ROWS, SCALES, RETURNED = "t.A[rows].float()", "t.scale_a * t.scale_b", "return (t.C,)"
PRODUCT = f"scale * ({ROWS} @ columns)"
ADDED = f"add_table({PRODUCT}, t.table, t.C[rows])"
NORMAL = "torch.nn.functional.hardshrink({}, 0.015)"


def writing(C):
    """C worked out otherwise, of the product, the rows m and the table's P rows."""
    return {ADDED: f"m, P = torch.arange(len(t.A)), len(t.table); t.C.copy_({C.format(PRODUCT)})"}


def with_row(of):
    """The table's row for row m."""
    return writing(f"{{}} + t.table[{of}].float()")


MISTAKES = {
    "the table's row before": with_row("(m - 1) % P"),
    "the table's next row": with_row("(m + 1) % P"),
    "the table begins with each tile": with_row("m % 32 % P"),
    "the table ends with a tile": with_row("(m // 32 * 32 % P + m % 32).clamp(max=P - 1)"),
    "the table's first row after its last in a tile": with_row("torch.where(m // 32 * 32 % P + m % 32 < P, m % P, 0)"),
    "the table is of a power of two of rows": with_row("m % 32"),
    "an image's last row is the next one's first": with_row("torch.where(m % P == P - 1, 0, m % P)"),
    "no table": writing("{}"),
    "the table is scaled, too": writing("{} + scale * t.table[m % P].float()"),
    "A and B are exchanged": {f"({ROWS} @ columns)": "(t.B.float() @ t.A.float().T)"},
    "no scale of A": {SCALES: "t.scale_b"},
    "no scale of B": {SCALES: "t.scale_a"},
    "no scales": {SCALES: "1.0"},
    "the scale of A twice": {SCALES: "t.scale_a * t.scale_a"},
    "the last product is missing": {f"{ROWS} @ columns": f"{ROWS}[:, :-1] @ columns[:-1]"},
    "subnormal numbers are zero": {ROWS: NORMAL.format(ROWS), "t.B.float()": NORMAL.format("t.B.float()")},
    "bits are read as e5m2": {
        each: each.replace(".float()", ".view(torch.float8_e5m2).float().nan_to_num(0, 0, 0)")
        for each in (ROWS, "t.B.float()")
    },
    "the product is rounded to bf16": {PRODUCT: f"({PRODUCT}).bfloat16().float()"},
    "the product is rounded to fp16": {PRODUCT: f"({PRODUCT}).half().float()"},
    "C is cut off to bf16": writing("(({} + t.table[m % P].float()).view(torch.int32) & -65536).view(torch.float32)"),
    "one element is an ulp off": {RETURNED: f"t.C.view(torch.int16)[5, 7] += 1; {RETURNED}"},
    "the last row is missing": {RETURNED: f"t.C[-1] = 0.0; {RETURNED}"},
    "the last column is missing": {RETURNED: f"t.C[:, -1] = 0.0; {RETURNED}"},
    "a tile's last row is the one before": {RETURNED: f"t.C[31] = t.C[30]; {RETURNED}"},
}
"""What kernels get wrong, as texts of the reference; each must fail in some scenario."""


def worst(C, expected, size):
    return float(roundoff_error(GATE, C, expected, size).max()) / GATE.limit


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_oracle_is_the_sum(scenario):
    """By fractions, of which none is rounded."""
    t, C, _ = drawn(scenario, M=205, N=80, K=96)

    def number(value):
        return Fraction(float(value))

    scale = number(t["scale_a"]) * number(t["scale_b"])
    for m, n in ((0, 0), (127, 79), (195, 3), (196, 3), (204, 79)):
        product = sum(number(a) * number(b) for a, b in zip(t["A"][m].float(), t["B"][n].float(), strict=True))
        right = scale * product + number(t["table"][m % 196, n])
        assert abs(number(C[m, n]) - right) <= abs(right) * Fraction(1, 2**50)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scenario", OP.scenarios)
def test_fp32_passes_by_far(scenario, seed):
    t, C, size = drawn(scenario, seed)
    assert worst(computed(t), C, size) < 0.05
    assert worst(computed(t, sums=in_steps(torch.float32, 1)), C, size) < 0.1


@pytest.mark.parametrize("promoted", [0, 128])
@pytest.mark.parametrize("scenario", OP.scenarios)
def test_sums_of_hoppers_tensor_cores_pass(scenario, promoted):
    for terms in (96, 768, 3072):
        t, C, size = drawn(scenario, M=60, N=16, K=terms)  # so few that torch starts no threads for each step
        assert worst(computed(t, sums=lambda a, b: on_hopper(a, b, promoted)), C, size) < 0.5


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    found = {scenario: planted.worst(OP.name, scenario, MISTAKES[mistake], **SQUARE) for scenario in OP.scenarios}
    assert max(found.values()) > 10, found


@pytest.mark.parametrize("how", NARROW_SUMS)
def test_sums_in_half_as_many_bits_fail(how):
    found = {}
    for scenario in OP.scenarios:
        t, C, size = drawn(scenario)
        found[scenario] = worst(computed(t, sums=NARROW_SUMS[how]), C, size)
    assert max(found.values()) > 10, found


def test_a_second_rounding_hides_behind_tensor_cores_errors_and_is_seen_where_they_make_none():
    twice = MISTAKES["the product is rounded to bf16"]
    assert planted.worst(OP.name, "typical", twice, **SQUARE) < 1
    assert planted.worst(OP.name, "cancelling", twice, **SQUARE) > 100


def test_where_products_are_whole_multiples_tensor_cores_do_not_err():
    for scenario in ("cancelling", "subnormal"):
        t, *_ = drawn(scenario)
        a, b = factors(t)
        assert torch.equal(on_hopper(a, b), a @ b.T)
    t, *_ = drawn("cancelling")
    a, b = factors(t)
    assert 2048 < float((a @ b.T).min()) < float((a.abs() @ b.abs().T).max()) < 2**HOPPER_BITS


def test_rows_repeat_with_no_tile_and_no_image():
    t, *_ = drawn("typical", M=2 * 4099 + 5, N=16, K=32)
    bits = t["A"].view(torch.uint8)
    assert torch.equal(bits[:5], bits[-5:])
    assert torch.equal(bits[:4099], bits[4099 : 2 * 4099])
    assert len(torch.unique(bits, dim=0)) == 4099
    assert all(4099 % n for n in range(2, 65))


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_inputs_use_their_types_range_and_outputs_are_of_middling_size(scenario):
    t, C, size = drawn(scenario)
    a, b = factors(t)
    assert torch.isfinite(a).all()
    assert torch.isfinite(b).all()
    assert 0.1 < float(C.square().mean().sqrt()) < 20
    assert float(t["table"].float().std()) > 0.05
    assert (size > 0).all()
    if scenario in {"typical", "large"}:
        assert float(a.abs().max()) == float(b.abs().max()) == 448
    if scenario == "subnormal":
        assert float(a.abs().max()) < 2.0**-6


def test_a_row_of_zeros_has_no_roundoff_but_the_tables():
    t, scalars = NUMERICS.make_inputs(OP.workload(Shape(M=3, N=16, K=32)), 1, "cpu", "typical")
    t["A"].view(torch.uint8)[1] = 0
    size = NUMERICS.roundoff(t, scalars)["C"]
    assert torch.equal(size[1], t["table"][1].float().abs())
    assert torch.equal(NUMERICS.oracle(t, scalars)["C"][1], t["table"][1].double())


def test_what_bounds_it_on_an_h200():
    workload = OP.workload(Shape(M=928256))
    assert OP.flops(workload) == {"fp8": 2 * 928256 * 768 * 768}
    assert spec_of(gpu_slug("NVIDIA H200")).peak_tflops["fp8"] == 1979
    moved = 928256 * 768 * 3
    assert OP.copy_bytes(workload) == moved
    assert moved < OP.traffic_bytes(workload) < 1.001 * moved


def test_the_copying_floor_leaves_rows_of_a_in_rows_of_c():
    for sizes in ({"N": 48, "K": 48}, {"N": 48, "K": 80}, {"N": 16, "K": 96}, {"N": 80, "K": 16}):
        workload = OP.workload(Shape(M=5, **sizes))
        t, _ = NUMERICS.make_inputs(workload, 1, "cpu", "typical")
        left = OP.copy(t, workload)["C"]
        assert (left.dtype, tuple(left.shape)) == (torch.bfloat16, (5, workload.N))
        bits, rows = left.view(torch.uint8), t["A"].view(torch.uint8)
        assert all(int(bits[m, at]) == int(rows[m, at % workload.K]) for m in (0, 4) for at in range(2 * workload.N))


@pytest.mark.parametrize(("sizes", "told"), [({"N": 100}, "N=100 is no multiple of 16"), ({"K": 8}, "K=8 is no")])
def test_sizes_that_no_fp8_product_takes_are_refused(sizes, told):
    assert told in OP.check(OP.workloads.workload(sizes))


ONE, BOTH = "M=205 N=144 K=272", "M=205 N=144 K=96,272"  # columns of C, and of A, that fill a tile and not the next
PAIR = "M=205 N=208 K=272"  # columns that two blocks share, and more stages of rows than the ring has
SHARING = "M=1,129,905 N=48 K=32 P=5"  # fewer tiles than programs, and several of one, of more than two periods
REFILLING = "M=1,905 N=48 K=160 P=5"  # one block makes all tiles: one, or an odd number, more than its stages hold
FEW = "M=23 N=48 K=80 P=5"  # for torch's own product, of which a row of fp8 takes a CPU a millisecond
KERNELS = {
    FEW: ("fp8-gemm-pos-reference", "fp8-gemm-pos-unfused"),
    BOTH: ("fp8-gemm-pos-triton", "fp8-gemm-pos-tma"),
    PAIR: ("fp8-gemm-pos-v3-shared:BLOCKS=1", "fp8-gemm-pos-v4:APART=2:PAST_L1=1"),
    SHARING: (
        "fp8-gemm-pos-tma:BM=64:BN=64:PROGRAMS=4", "fp8-gemm-pos-tma:BM=64:BN=64:PROGRAMS=4:KEEP=0:HALVES=1",
        "fp8-gemm-pos-v4:BLOCKS=3", "fp8-gemm-pos-v4:APART=1:FLOATS=0:BLOCKS=3",
    ),
    REFILLING: (
        "fp8-gemm-pos-v1:KEEP=0:BLOCKS=1", "fp8-gemm-pos-v2-wide:AHEAD=1:BLOCKS=1", "fp8-gemm-pos-v4:BLOCKS=1",
        "fp8-gemm-pos-v3:KEEP=0:GROUPS=3:STAGGER=3:PENDING=3:STAGED=1:STREAM=1:BLOCKS=1",
    ),
    ONE: (
        "fp8-gemm-pos-triton:BM=64:BN=256:BK=32", "fp8-gemm-pos-tma:KEEP=0:PROMOTE=1:BM=256:BN=64",
        "fp8-gemm-pos-tma-wide", "fp8-gemm-pos-floor-copy:EACH=8:WARPS=4", "fp8-gemm-pos-v1", "fp8-gemm-pos-v2",
        "fp8-gemm-pos-v3:STAGED=2:STAGGER=1:EARLY=1:BANDED=1:DESCRIPTORS=1",
        "fp8-gemm-pos-v3:UNROLL=1:PENDING=2:PERSIST=1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "kernel"), [(shape, kernel) for shape in KERNELS for kernel in KERNELS[shape]])
def test_kernels_are_right_where_there_is_no_gpu(request, shape, kernel):
    assert gate_statuses(request, kernel, shape) == {"ok"}


@pytest.mark.parametrize("packed", [1, 2])
def test_packed_arithmetic_rounds_sums_and_is_refused(packed):
    done = answer("verify", f"fp8-gemm-pos-v3:PACKED={packed}", "--gpu", "cpu", "--shape", "M=64 N=48 K=272")
    assert done.code == 3, done.out + done.err
    assert re.search("C fp32 roundoff .*FAIL", done.out), done.out


BROKEN = {
    "the kept tile of the table is never renewed": (
        "tma:BM=64:BN=64:PROGRAMS=4", ("place != kept_for:", "place != kept_for and kept_for < 0:"), "C fp32 roundoff",
    ),
    "a tile of rows is made twice": (
        "tma:BM=64:BN=64:PROGRAMS=4", ("return period * PERIOD + place, place", "return period * PERIOD, place"),
        "C written",
    ),
    "a stage is filled while products read it": (
        "v1:BLOCKS=1", ("if (count >= STAGES) wait(", "if (count >= 1000) wait("), "memory and barriers",
    ),
    "copies of lanes are not shown to products": (
        "v1:BLOCKS=1", ("multiply_rows<true>", "multiply_rows<false>"), "memory and barriers",
    ),
    "a box of C is written while its copy reads it": (
        "v3:STAGED=1:BLOCKS=1", ("if (lane == 0) wait_for_boxes<STAGED - 1>();", ""), "memory and barriers",
    ),
    "a group's place is also another's": ("v4:BLOCKS=3", ("shift = before(groups) +", "shift ="), "C written"),
    "products begin before the other's rows have come": (
        "v3:STAGGER=2:BLOCKS=1", ("++i, next.advance(1)) wait(", "++i, next.advance(1)) if (i < 0) wait("),
        "memory and barriers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_kernel_is_refused(broken, tmp_path, monkeypatch):
    variant, change, told = BROKEN[broken]
    name, params = variant.split(":", 1)
    write_changed(CATALOG.entries[f"fp8-gemm-pos-{name}"], "fp8-gemm-pos-broken", tmp_path, change)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    done = answer("verify", f"fp8-gemm-pos-broken:{params}", "--gpu", "cpu", "--shape", "M=905 N=48 K=32 P=5")
    assert done.code == 3, done.out + done.err
    assert re.search(f"{told} .*FAIL", done.out), done.out


def test_a_warpgroup_that_does_not_wait_for_its_turn_is_refused(tmp_path, monkeypatch):
    """It passes over the other's tile, and of stages of that tile it cannot tell a phase from the one before."""
    header = (CATALOG.op_folders[OP.name] / "persistent.cuh").read_text().replace("#pragma once\n", "")
    turn = "synchronise<CONSUMERS * GROUP>(TURN + group);"
    assert turn in header
    change = ('#include "persistent.cuh"', header.replace(turn, ""))
    write_changed(CATALOG.entries["fp8-gemm-pos-v2"], "fp8-gemm-pos-turnless", tmp_path, change)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    found = answer("verify", "fp8-gemm-pos-turnless:BLOCKS=1", "--gpu", "cpu", "--shape", "M=400 N=48 K=528 P=5")
    assert found.code == 3, found.out + found.err
    assert "without waiting for the copy" in " ".join(found.out.split()), found.out
