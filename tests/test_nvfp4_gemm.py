"""The product of matrices in nvfp4: its oracle is the sum of numbers, fp32 passes its gate, mistakes do not."""

from functools import cache

import pytest
import torch
from changed_kernels import write_changed
from deep import cases_to_run
from faults import answer
from interpreted_ops import FIRST, UNTIL_WRONG, statuses, try_kernels
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

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import load_numerics
from gdnbench.machine.gpus import spec_of
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

pytestmark = pytest.mark.usefixtures("one_thread")

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["nvfp4-gemm"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
GATE = OP.gates[0]
SIZES = {"M": 21, "N": 48, "K": 1024, "L": 2}


@cache
def drawn(scenario, seed=1, **sizes):
    """Inputs, the oracle's C and its roundoff, which tests leave as they are."""
    workload = OP.workload(Shape(**(SIZES | sizes)))
    t, scalars = NUMERICS.make_inputs(workload, seed, "cpu", scenario)
    return t, NUMERICS.oracle(t, scalars, workload)["C"], NUMERICS.roundoff(t, scalars, workload)["C"]


def computed(t, mistake="", total=whole):
    """C of plain scales."""
    rows = []
    for matrix in range(len(t["A"])):
        a = scaled(t["A"][matrix], t["sfa"][matrix], mistake)
        of = 0 if mistake == "the first B for all" else matrix
        b = scaled(t["B"][of], t["sfb"][of], mistake if "scale" in mistake and mistake in FACTOR_MISTAKES else "")
        if mistake == "scales of the row before":
            a = scaled(t["A"][matrix], t["sfa"][matrix].view(torch.uint8).roll(1, 0).view(torch.float8_e4m3fn))
        rows.append(total(a, b))
    c = torch.stack(rows).float()
    if mistake == "C goes through bf16":
        c = c.bfloat16()
    c = c.half()
    if mistake == "one element is an ulp off":
        c.view(torch.int16)[1, 5, 7] += 1
    if mistake == "the last row is missing":
        c[:, -1] = 0.0
    if mistake == "columns are off by one":
        c = c.roll(1, dims=2)
    return c


MISTAKES = (
    *FACTOR_MISTAKES,
    *TERM_MISTAKES,
    "the first B for all",
    "scales of the row before",
    "C goes through bf16",
    "one element is an ulp off",
    "the last row is missing",
    "columns are off by one",
)
WRONG_SUMS = NARROW_SUMS | {"four parts are rounded to fp16": in_parts(torch.float16, 4)}


def worst(c, expected, size):
    return float(roundoff_error(GATE, c, expected, size).max()) / GATE.limit


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_oracle_is_the_sum(scenario):
    """By fractions, of which none is rounded."""
    t, c, _ = drawn(scenario)
    for matrix, row, column in ((0, 0, 0), (1, 20, 47), (1, 3, 30)):
        pair = ((t["A"][matrix, row], t["sfa"][matrix, row]), (t["B"][matrix, column], t["sfb"][matrix, column]))
        assert float(c[matrix, row, column]) == pytest.approx(float(exact_sum(*pair)), rel=2**-45, abs=2**-30)


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_both_layouts_hold_the_same_scales(scenario):
    plain, c, size = drawn(scenario, M=130, N=144)
    tiled, same_c, same_size = drawn(scenario, M=130, N=144, TILED=1)
    assert torch.equal(c, same_c)
    assert torch.equal(size, same_size)
    assert tuple(tiled["sfa"].shape) == tuple(tiled["sfb"].shape) == (2, 256, 64)
    for name, rows in (("sfa", 130), ("sfb", 144)):
        for row, block in ((0, 0), (33, 5), (127, 63), (rows - 1, 62)):
            assert by_tile(tiled[name][1], row, block) == float(plain[name][1, row, block])


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(("K", "step"), [(1024, 1), (1024, 64), (16384, 16)])
def test_fp32_passes_by_far(scenario, K, step):
    t, c, size = drawn(scenario, K=K, L=1)
    assert worst(computed(t, total=in_steps(torch.float32, step)), c, size) < 0.3


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize("parts", [2, 16])
def test_parts_that_are_kept_in_fp32_pass_by_far(scenario, parts):
    t, c, size = drawn(scenario)
    assert worst(computed(t, total=in_parts(torch.float32, parts)), c, size) < 0.3


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
    _, c, _ = drawn(scenario, M=64, N=256, K=16384, L=1)
    assert float(c.square().mean().sqrt()) > 0.1
    assert float(c.abs().max()) < 65504


def test_every_code_is_drawn():
    t, *_ = drawn("all-codes")
    assert torch.unique(codes(t["A"])).tolist() == torch.unique(codes(t["B"])).tolist() == list(range(16))


def test_what_bounds_it():
    """At the GPU's peak for numbers of four bits, or for fp16, to which they are widened where there is none."""
    workload = OP.suite("nvidia").workloads[0]
    assert (workload.M, workload.N, workload.K, workload.L) == (128, 7168, 16384, 1)
    assert OP.flops(workload) == {"fp4": 2 * 128 * 7168 * 16384}
    assert OP.instead["fp4"] in spec_of(gpu_slug("NVIDIA H200")).peak_tflops
    assert "fp4" not in spec_of(gpu_slug("NVIDIA H200")).peak_tflops
    moved = 7168 * 16384 * 9 // 16
    assert moved < OP.copy_bytes(workload) < OP.traffic_bytes(workload) < 1.05 * moved


def test_the_contests_workloads_are_there_in_both_layouts():
    plain, tiled = (OP.suite(name).workloads for name in ("nvidia", "nvidia-tiled"))
    assert [(each.N, each.K) for each in plain] == [(7168, 16384), (4096, 7168), (7168, 2048)]
    assert [str(each).replace("L=1 tiled", "").strip() for each in tiled] == [str(each) for each in plain]


def test_the_reading_floor_leaves_what_it_read():
    t, *_ = drawn("all-codes", M=3, N=16, K=256)
    left = OP.copy(t, OP.workload(Shape(M=3, N=16, K=256, L=2)))["C"]
    assert (left.dtype, tuple(left.shape)) == (torch.float16, (2, 3, 16))
    low = high = 0
    for byte in t["B"][1, 9].tolist():
        low ^= byte
    for byte in t["sfb"].view(torch.uint8)[1, 9].tolist():
        high ^= byte
    assert (left.view(torch.int16)[1, :, 9].int() & 0xFFFF).tolist() == [low | high << 8] * 3


@pytest.mark.parametrize(("sizes", "told"), [({"K": 128}, "K=128 is no multiple of 256"), ({"N": 40}, "N=40 is no")])
def test_sizes_that_no_wide_load_takes_are_refused(sizes, told):
    assert told in OP.check(OP.workloads.workload(sizes))


KERNELS = (
    "nvfp4-gemm-scaled",
    "nvfp4-gemm-scaled:BN=256:BK=128",
    "nvfp4-gemm-upcast",
    "nvfp4-gemm-upcast:BM=16:BN=128:BK=256:SPLIT=1",
    "nvfp4-gemm-upcast:BM=64:BK=64:SPLIT=8",
    "nvfp4-gemm-floor-read",
    "nvfp4-gemm-floor-read:WARPS=32:EACH=1",
)
WORKLOADS = ("M=37 N=48 K=256 L=2 plain", "M=130 N=144 K=256 L=1 tiled")
AT = "M=37 N=16 K=512 L=2 tiled"
SPOILED = {
    "halves of bytes exchanged in one factor": ("upcast", "widened(b, scale_b)", "widened(b >> 4, scale_b)"),
    "the sign is a bit off": ("upcast", "<< 12", "<< 11"),
    "the next block's scale": ("upcast", "(first // 16 + tl", "((first // 16 ^ 1) + tl"),
    "tiles of scales as if they were 128 in a row": ("upcast", "r % 32 * 16 + r % 128 // 32 * 4", "r % 128 * 4"),
    "scales of the first matrix for all": ("upcast", "sfb += matrix", "sfb += 0"),
    "a part is added twice": ("upcast", "part * elements + place", "(part + part % 2) % SPLIT * elements + place"),
    "sums in fp16": ("upcast", "sums += tl.load(", "sums = sums.to(tl.float16).to(tl.float32) + tl.load("),
    "rows of the matrix before": ("scaled", "of_a = A + matrix * M", "of_a = A + (matrix - matrix % 2) * M"),
    "scales exchanged": ("scaled", "sfa += matrix * rows_sfa", "sfa += (1 - matrix) * rows_sfa"),
    "tiles of scales of plain ones": ("scaled", "if TILED:", "if not TILED:"),
}


@pytest.fixture(scope="module")
def interpreted(request, tmp_path_factory):
    return try_kernels(request, "nvfp4-gemm", WORKLOADS, SPOILED, AT, tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_kernels_are_right_where_there_is_no_gpu(interpreted, kernel, workload):
    assert interpreted.kernels[kernel, workload] == ("ok", "")


@pytest.mark.parametrize("mistake", SPOILED)
def test_a_spoiled_kernel_is_refused(interpreted, mistake):
    beyond = mistake == "the next block's scale"  # of the last block there is none
    assert interpreted.mistakes[mistake][0] == ("unsafe" if beyond else "wrong-numbers")


BY_HAND = (
    ("nvfp4-gemm-v1", "M=37 N=48 K=256 L=2 plain"),
    ("nvfp4-gemm-v1:BN=128:SPLIT=1", "M=130 N=144 K=256 L=1 tiled"),
    ("nvfp4-gemm-v1:BN=128:SPLIT=1:STAGES=2:AHEAD=3", "M=1 N=16 K=512 L=1 plain"),  # rings go round
    ("nvfp4-gemm-v2", "M=130 N=16 K=256 L=1 plain"),
    ("nvfp4-gemm-v2:SPLIT=1:AHEAD=3", "M=3 N=48 K=512 L=1 tiled"),
)
# Stages are filled again; and K is in two parts.
RING_1, PARTS_1 = "v1:BN=128:SPLIT=1:STAGES=2:AHEAD=2", "v1:BN=128:SPLIT=2"
RING_2, PARTS_2 = "v2:SPLIT=1", "v2:SPLIT=2"
BROKEN = {
    "a sign that stays where it was": (RING_1, "0x70007000", "0x00007000", "wrong-numbers"),
    "the scale of the other row": (RING_1, "scale_pair(from[8 * row])", "scale_pair(from[0])", "wrong-numbers"),
    "the sums of one part alone": (PARTS_1, "part < PARTS; ++part", "part < PARTS - 1; ++part", "wrong-numbers"),
    "a stage is filled while products read it": (RING_1, "if (step >= STAGES) wait(", "if (step < 0) wait(", "unsafe"),
    "scales that other lanes still copy": (RING_1, "__syncwarp();", "", "unsafe"),
    "operands that are written while products read them": (
        RING_1,
        "wait_for_products<1>();",
        "wait_for_products<4>();",
        "unsafe",
    ),
    "sums that are not waited for": (RING_1, "wait_for_products<0>();", "", "unsafe"),
    "A is widened where products read": (RING_2, "if (step >= STAGES) wait(", "if (step < 0) wait(", "unsafe"),
    "A that products are not shown": (RING_2, "  fence_async_proxy();", "", "unsafe"),
    "the sums of one block for all": (PARTS_2, "load_of(each,", "load_of(0,", "wrong-numbers"),
    "sums that other blocks still store": (
        PARTS_2,
        "synchronise_cluster();\n  GDN",
        "__syncthreads();\n  GDN",
        "unsafe",
    ),
}


@pytest.fixture(scope="module")
def by_hand(request, tmp_path_factory):
    """Right ones on the first inputs, broken ones on all until one shows it."""
    root, at = tmp_path_factory.mktemp("by-hand"), {}
    for number, (mistake, (label, right, wrong, _)) in enumerate(BROKEN.items()):
        kernel, params = label.split(":", 1)
        name = f"nvfp4-gemm-broken-{number}"
        write_changed(CATALOG.entries[f"nvfp4-gemm-{kernel}"], name, (right, wrong), root)
        at[mistake] = f"{name}:{params}", "M=5 N=16 K=512 L=1 plain"
    cases = cases_to_run(request, "test_kernels_by_hand_are_right_where_there_is_no_gpu")
    right = {(case["kernel"], case["workload"]): FIRST for case in cases}
    found = statuses("nvfp4-gemm", right | dict.fromkeys(at.values(), UNTIL_WRONG), root)
    return found | {mistake: found[pair] for mistake, pair in at.items()}


@pytest.mark.parametrize(("kernel", "workload"), BY_HAND)
def test_kernels_by_hand_are_right_where_there_is_no_gpu(by_hand, kernel, workload):
    assert by_hand[kernel, workload] == ("ok", "")


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_kernel_by_hand_is_refused(by_hand, mistake):
    assert by_hand[mistake][0] == BROKEN[mistake][3], by_hand[mistake]


def test_the_reference_is_right_on_a_cpu():
    done = answer(
        "verify", "nvfp4-gemm-reference", "--gpu", "cpu", "--shape", "M=37 N=144 K=256 L=2 scales=plain,tiled"
    )
    assert done.code == 0, done.err
    assert "fail" not in done.out
