"""The grouped product in nvfp4: its oracle is each group's sums, fp32 passes its gate, mistakes of groups do not."""

from functools import cache
from itertools import pairwise

import pytest
import torch
from faults import answer
from interpreted_ops import try_kernels
from nvfp4_data import (
    FACTOR_MISTAKES,
    NARROW_SUMS,
    TERM_MISTAKES,
    by_tile,
    exact_sum,
    in_parts,
    in_steps,
    scaled,
    whole,
)

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

pytestmark = pytest.mark.usefixtures("one_thread")

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["nvfp4-grouped-gemm"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
GATE = OP.gates[0]
SIZES = {"rows": (21, 0, 1, 15), "N": 48, "K": 1024}


@cache
def drawn(scenario, seed=1, **sizes):
    """Inputs, the oracle's C and its roundoff, which tests leave as they are."""
    workload = OP.workload(Shape(**(SIZES | sizes)))
    t, scalars = NUMERICS.make_inputs(workload, seed, "cpu", scenario)
    return t, NUMERICS.oracle(t, scalars, workload)["C"], NUMERICS.roundoff(t, scalars, workload)["C"]


def computed(t, mistake="", total=whole):
    """C of plain scales."""
    a, rows = scaled(t["A"], t["sfa"], mistake), []
    ends = t["ends"].tolist()
    if mistake == "the group's rows begin a row late":
        ends = [ends[0], *(min(end + 1, ends[-1]) for end in ends[1:])]
    if mistake == "groups of equal sizes":
        ends = [ends[-1] * group // (len(ends) - 1) for group in range(len(ends))]
    for group, (begin, end) in enumerate(pairwise(ends)):
        of = {"the first B for all": 0, "the next group's B": (group + 1) % len(t["B"])}.get(mistake, group)
        of_scales = (group + 1) % len(t["B"]) if mistake == "the next group's scales" else of
        of_b = mistake if "scale" in mistake and mistake in FACTOR_MISTAKES else ""
        rows.append(total(a[begin:end], scaled(t["B"][of], t["sfb"][of_scales], of_b)))
    c = torch.cat(rows).float()
    if mistake == "C goes through bf16":
        c = c.bfloat16()
    c = c.half()
    if mistake == "one element is an ulp off":
        c.view(torch.int16)[5, 7] += 1
    if mistake == "rows are shifted":
        c = c.roll(1, dims=0)
    if mistake == "a group of one row is left out":
        c[21] = 0.0
    return c


MISTAKES = (
    *FACTOR_MISTAKES,
    *TERM_MISTAKES,
    "the group's rows begin a row late",
    "groups of equal sizes",
    "the first B for all",
    "the next group's B",
    "the next group's scales",
    "C goes through bf16",
    "one element is an ulp off",
    "rows are shifted",
    "a group of one row is left out",
)
WRONG_SUMS = NARROW_SUMS | {"four parts are rounded to fp16": in_parts(torch.float16, 4)}


def worst(c, expected, size):
    return float(roundoff_error(GATE, c, expected, size).max()) / GATE.limit


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_oracle_is_each_groups_sum(scenario):
    """By fractions, of which none is rounded."""
    t, c, _ = drawn(scenario)
    assert t["ends"].tolist() == [0, 21, 21, 22, 37]
    for row, group, column in ((0, 0, 0), (20, 0, 47), (21, 2, 30), (22, 3, 3), (36, 3, 47)):
        pair = ((t["A"][row], t["sfa"][row]), (t["B"][group, column], t["sfb"][group, column]))
        assert float(c[row, column]) == pytest.approx(float(exact_sum(*pair)), rel=2**-45, abs=2**-30)


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_both_layouts_hold_the_same_scales_and_groups_begin_with_a_tile(scenario):
    sizes = {"rows": (130, 0, 3), "N": 144}
    plain, c, size = drawn(scenario, **sizes)
    tiled, same_c, same_size = drawn(scenario, **sizes, TILED=1)
    assert torch.equal(c, same_c)
    assert torch.equal(size, same_size)
    assert tuple(tiled["sfa"].shape) == (256 + 128, 64)
    assert tuple(tiled["sfb"].shape) == (3, 256, 64)
    for row, in_tiles, block in ((0, 0, 0), (33, 33, 5), (129, 129, 63), (130, 256, 62), (132, 258, 7)):
        assert by_tile(tiled["sfa"], in_tiles, block) == float(plain["sfa"][row, block])
    assert by_tile(tiled["sfb"][2], 143, 9) == float(plain["sfb"][2, 143, 9])


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(("K", "step"), [(1024, 1), (1024, 64), (7168, 16)])
def test_fp32_passes_by_far(scenario, K, step):
    t, c, size = drawn(scenario, K=K)
    assert worst(computed(t, total=in_steps(torch.float32, step)), c, size) < 0.3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    found = {}
    for scenario in OP.scenarios:
        t, c, size = drawn(scenario)
        found[scenario] = worst(computed(t, mistake), c, size)
    assert max(found.values()) > 10, found


@pytest.mark.parametrize("how", WRONG_SUMS)
def test_sums_in_fewer_bits_fail(how):
    found = {}
    for scenario in OP.scenarios:
        t, c, size = drawn(scenario)
        found[scenario] = worst(computed(t, total=WRONG_SUMS[how]), c, size)
    assert max(found.values()) > 10, found


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_outputs_are_fp16s(scenario):
    _, c, _ = drawn(scenario, rows=(40, 20), N=256, K=7168)
    assert float(c.square().mean().sqrt()) > 0.1
    assert float(c.abs().max()) < 65504


def test_what_bounds_it():
    """Of groups without rows nothing is read."""
    workload = OP.suite("nvidia").workloads[0]
    assert (sum(workload.rows), len(workload.rows), workload.N, workload.K) == (1024, 8, 4096, 7168)
    assert OP.flops(workload) == {"fp4": 2 * 1024 * 4096 * 7168}
    assert OP.instead == {"fp4": "fp16"}
    moved = 8 * 4096 * 7168 * 9 // 16
    assert OP.copy_bytes(workload) == moved + 2 * 1024 * 4096
    assert OP.traffic_bytes(workload) == OP.copy_bytes(workload) + 1024 * 7168 * 9 // 16
    with_none = OP.workload(Shape(rows=(*workload.rows, 0), N=4096, K=7168))
    assert OP.traffic_bytes(with_none) == OP.traffic_bytes(workload)


def test_the_reading_floor_leaves_what_it_read():
    sizes = {"rows": (2, 0, 1), "N": 16, "K": 256}
    t, *_ = drawn("all-codes", **sizes)
    left = OP.copy(t, OP.workload(Shape(**sizes)))["C"]
    assert (left.dtype, tuple(left.shape)) == (torch.float16, (3, 16))
    for row, group in ((0, 0), (1, 0), (2, 2)):
        low = high = 0
        for byte in t["B"][group, 9].tolist():
            low ^= byte
        for byte in t["sfb"].view(torch.uint8)[group, 9].tolist():
            high ^= byte
        assert int(left.view(torch.int16)[row, 9]) & 0xFFFF == low | high << 8


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"K": 128}, "K=128 is no multiple of 256"),
        ({"N": 40}, "N=40 is no"),
        ({"rows": (0, 0)}, "every group is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(sizes, told):
    assert told in OP.check(OP.workloads.workload(sizes))


KERNELS = (
    "nvfp4-grouped-gemm-scaled",
    "nvfp4-grouped-gemm-scaled:BN=32:BK=128",
    "nvfp4-grouped-gemm-upcast",
    "nvfp4-grouped-gemm-upcast:BM=16:BN=128:BK=64",
    "nvfp4-grouped-gemm-floor-read",
    "nvfp4-grouped-gemm-floor-read:WARPS=32:EACH=1",
)
WORKLOADS = ("rows=37+0+5 N=80 K=256 plain", "rows=0+130+1 N=144 K=256 tiled")
AT = "rows=5+0+37 N=16 K=256 tiled"
SPOILED = {
    "rows are shifted": ("upcast", "A + rows[:, None]", "A + tl.maximum(rows[:, None] - 1, 0)"),
    "the first B for all": ("upcast", "B + group * N", "B + 0 * N"),
    "the next group's B": ("scaled", "(is_here, each, group)", "(is_here, tl.minimum(each + 1, 2), group)"),
    "scales of groups one after the other": ("scaled", "tl.cdiv(end - begin, 128) * 128 if TILED else ", ""),
    "the first group's scales for all": ("scaled", "sfb += group", "sfb += 0"),
    "halves of bytes exchanged in one factor": ("upcast", "widened(b, scale_b)", "widened(b >> 4, scale_b)"),
    "sums in fp16": ("upcast", "sums) * FROM_BOTH", "sums).to(tl.float16).to(tl.float32) * FROM_BOTH"),
}


@pytest.fixture(scope="module")
def interpreted(request, tmp_path_factory):
    return try_kernels(request, "nvfp4-grouped-gemm", WORKLOADS, SPOILED, AT, tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_kernels_are_right_where_there_is_no_gpu(interpreted, kernel, workload):
    assert interpreted.kernels[kernel, workload] == ("ok", "")


@pytest.mark.parametrize("mistake", SPOILED)
def test_a_spoiled_kernel_is_refused(interpreted, mistake):
    assert interpreted.mistakes[mistake][0] == "wrong-numbers"


def test_the_reference_is_right_on_a_cpu():
    sizes = "rows=37+0+5 N=144 K=256 scales=plain,tiled"
    done = answer("verify", "nvfp4-grouped-gemm-reference", "--gpu", "cpu", "--shape", sizes)
    assert done.code == 0, done.err
    assert "fail" not in done.out
