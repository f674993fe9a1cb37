"""The product in nvfp4: its oracle is the sum of unpacked numbers, fp32 sums pass its gate, and mistakes do not."""

from fractions import Fraction
from functools import cache

import pytest
import torch
from faults import answer
from interpreted_ops import try_kernels
from nvfp4_data import FACTOR_MISTAKES, codes, exact_sum, scaled

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

pytestmark = pytest.mark.usefixtures("one_thread")

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["nvfp4-gemv"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
GATE = OP.gates[0]
SIZES = {"M": 37, "K": 2048, "L": 3}


@cache
def drawn(scenario, seed=1, **sizes):
    """Inputs, the oracle's c and its roundoff, which tests leave as they are."""
    t, scalars = NUMERICS.make_inputs(OP.workload(Shape(**(sizes or SIZES))), seed, "cpu", scenario)
    return t, NUMERICS.oracle(t, scalars)["c"], NUMERICS.roundoff(t, scalars)["c"]


def whole_sum(terms):
    return terms.sum(-1)


def one_by_one(dtype, step=1):
    """Sums that are rounded after each `step` terms."""

    def total(terms):
        found = torch.zeros(terms.shape[:-1], dtype=dtype)
        for k in range(0, terms.shape[-1], step):
            found = (found.double() + terms[..., k : k + step].sum(-1)).to(dtype)
        return found.double()

    return total


def terms_with(t, mistake):
    """[L, M, K]."""
    of_a = {"no scales of a": "no scales", "a scaled a is rounded to e4m3": "a scaled number is rounded to e4m3"}
    of_b = "no scales" if mistake == "no scales of b" else mistake if mistake in SCALE_MISTAKES else ""
    a = scaled(t["a"], t["sfa"], of_a.get(mistake, mistake))
    b = scaled(t["b"], t["sfb"], of_b)
    if mistake == "the first vector for all matrices":
        b = b[:1].expand_as(b)
    terms = a * b[:, None]
    if mistake == "terms are rounded to bf16":
        terms = terms.bfloat16().double()
    return terms


def computed(t, mistake="", total=whole_sum):
    c = total(terms_with(t, mistake)).float()
    if mistake == "c goes through bf16":
        c = c.bfloat16()
    c = c.half()
    if mistake == "one element is an ulp off":
        c.view(torch.int16)[1, 5] += 1
    if mistake == "the last row is missing":
        c[:, -1] = 0.0
    if mistake == "rows of the matrix before":
        c = c.roll(1, dims=0)
    return c


SCALE_MISTAKES = tuple(each for each in FACTOR_MISTAKES if "scale" in each)
MISTAKES = (
    *FACTOR_MISTAKES,
    "no scales of a",
    "no scales of b",
    "the first vector for all matrices",
    "a scaled a is rounded to e4m3",
    "terms are rounded to bf16",
    "the last block is missing",
    "c goes through bf16",
    "one element is an ulp off",
    "the last row is missing",
    "rows of the matrix before",
)
NARROW_SUMS = {
    f"{name}, {step} at once": one_by_one(dtype, step)
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16))
    for step in (1, 16, 256)
}


def worst(c, expected, size):
    return float(roundoff_error(GATE, c, expected, size).max()) / GATE.limit


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_oracle_is_the_sum(scenario):
    """By fractions, of which none is rounded."""
    t, c, _ = drawn(scenario)

    for matrix, row in ((0, 0), (1, 17), (2, 36)):
        a, b = (t["a"][matrix, row], t["sfa"][matrix, row]), (t["b"][matrix], t["sfb"][matrix])
        assert abs(float(exact_sum(a, b) - Fraction(float(c[matrix, row])))) <= 2.0**-30


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scenario", OP.scenarios)
def test_fp32_passes_by_far(scenario, seed):
    t, c, size = drawn(scenario, seed)
    for step in (1, 16, 512):
        assert worst(computed(t, total=one_by_one(torch.float32, step)), c, size) < 0.3


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_fp32_passes_at_the_longest_rows(scenario):
    t, c, size = drawn(scenario, M=9, K=16384, L=1)
    assert worst(computed(t, total=one_by_one(torch.float32)), c, size) < 0.3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    found = {}
    for scenario in OP.scenarios:
        t, c, size = drawn(scenario)
        found[scenario] = worst(computed(t, mistake), c, size)
    assert max(found.values()) > 10, found


@pytest.mark.parametrize("how", NARROW_SUMS)
def test_sums_in_half_as_many_bits_fail(how):
    found = {}
    for scenario in OP.scenarios:
        t, c, size = drawn(scenario)
        found[scenario] = worst(computed(t, total=NARROW_SUMS[how]), c, size)
    assert max(found.values()) > 10, found


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_outputs_are_fp16s(scenario):
    for sizes in (SIZES, {"M": 257, "K": 16384, "L": 1}):
        _, c, _ = drawn(scenario, **sizes)
        assert float(c.square().mean().sqrt()) > 0.1
        assert float(c.abs().max()) < 65504


def test_every_code_and_scales_of_zero_are_drawn():
    t, *_ = drawn("all-codes")
    assert torch.unique(codes(t["a"])).tolist() == list(range(16))
    t, *_ = drawn("small-scales")
    scales = t["sfa"].float()
    assert torch.unique(scales).tolist() == [number * 2.0**-9 for number in range(8)]


def test_what_moves_is_the_matrices_and_their_scales():
    workload = OP.workload(Shape(M=7168, K=16384, L=1))
    moved = 7168 * 16384 * 9 // 16
    assert moved < OP.copy_bytes(workload) < 1.001 * moved
    assert moved < OP.traffic_bytes(workload) < 1.001 * moved
    assert OP.flops(workload) == {"fp4": 2 * 7168 * 16384}


def test_the_reading_floor_leaves_what_it_read():
    t, *_ = drawn("all-codes", M=5, K=1792, L=2)
    left = OP.copy(t, OP.workload(Shape(M=5, K=1792, L=2)))["c"]
    assert (left.dtype, tuple(left.shape)) == (torch.float16, (2, 5))
    low = high = 0
    for byte in t["a"][1, 4].tolist():
        low ^= byte
    for byte in t["sfa"].view(torch.uint8)[1, 4].tolist():
        high ^= byte
    assert int(left.view(torch.int16)[1, 4]) & 0xFFFF == low | high << 8


def test_rows_of_scales_begin_where_wide_loads_may():
    assert "K=128 is no multiple of 256" in OP.check(OP.workloads.workload({"K": 128}))


KERNELS = (
    "nvfp4-gemv-triton",
    "nvfp4-gemv-triton:BM=16:BK=512",
    "nvfp4-gemv-triton:BM=1:BK=4096",
    "nvfp4-gemv-floor-read",
    "nvfp4-gemv-floor-read:WARPS=2:EACH=1",
    "nvfp4-gemv-v1",
    "nvfp4-gemv-v2",
    "nvfp4-gemv-v2:WARPS=4:AHEAD=6:BLOCKS=1",
    "nvfp4-gemv-v2:HELD=1:WARPS=4:BLOCKS=1",
    "nvfp4-gemv-v3:HELD=2",
    "nvfp4-gemv-v3:WARPS=4:EACH=2:RING=1:BLOCKS=1",
)
WORKLOADS = ("M=19 K=256 L=3", "M=13 K=1792 L=2")
AT = "M=6 K=1792 L=2"
SPOILED = {
    "both halves of a byte are its lower one": ("triton", "value(x >> 4) * value(y >> 4)", "value(x) * value(y)"),
    "the first vector for all matrices": ("triton", "b + matrix * (K // 2)", "b + 0 * (K // 2)"),
    "blocks of 32": (
        "triton",
        "first // 16 + of_blocks, mask=is_block",
        "first // 16 + of_blocks // 2 * 2, mask=is_block",
    ),
    "the sign is a bit off": ("triton", "<< 12", "<< 11"),
    "negative numbers count as positive": ("v2", "low, first ^ SIGNS", "low, first"),
    "a magnitude is 5 for 4": ("v3", "0x0c080604", "0x0c0a0604"),
}


@pytest.fixture(scope="module")
def interpreted(request, tmp_path_factory):
    return try_kernels(request, "nvfp4-gemv", WORKLOADS, SPOILED, AT, tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_kernels_are_right_where_there_is_no_gpu(interpreted, kernel, workload):
    assert interpreted.kernels[kernel, workload] == ("ok", "")


@pytest.mark.parametrize("mistake", SPOILED)
def test_a_spoiled_kernel_is_refused(interpreted, mistake):
    assert interpreted.mistakes[mistake][0] == "wrong-numbers"


def test_the_reference_is_right_on_a_cpu():
    done = answer("verify", "nvfp4-gemv-reference", "--gpu", "cpu", "--shape", "M=5 L=2 K=256,1792")
    assert done.code == 0, done.err
    assert "fail" not in done.out
