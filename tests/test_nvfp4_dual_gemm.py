"""The gated product in nvfp4: its oracle is silu of one sum times another, fp32 passes its gate, mistakes do not."""

import math
from functools import cache

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
OP = CATALOG.ops["nvfp4-dual-gemm"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
GATE = OP.gates[0]
SIZES = {"M": 37, "N": 48, "K": 1024}


@cache
def drawn(scenario, seed=1, **sizes):
    """Inputs, the oracle's C and its roundoff, which tests leave as they are."""
    workload = OP.workload(Shape(**(SIZES | sizes)))
    t, scalars = NUMERICS.make_inputs(workload, seed, "cpu", scenario)
    return t, NUMERICS.oracle(t, scalars, workload)["C"], NUMERICS.roundoff(t, scalars, workload)["C"]


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
    "C goes through bf16": lambda x, y: (silu(x) * y).bfloat16().float(),
}
MISTAKES = (*FACTOR_MISTAKES, *TERM_MISTAKES, *GATED, "the first B's scales for both", "one element is an ulp off")
WRONG_SUMS = NARROW_SUMS | {"four parts are rounded to fp16": in_parts(torch.float16, 4)}


def computed(t, mistake="", total=whole):
    """C of plain scales; what follows the sums is fp32."""
    a = scaled(t["A"], t["sfa"], mistake)
    of_b = mistake if "scale" in mistake and mistake in FACTOR_MISTAKES else ""
    second = t["sfb1"] if mistake == "the first B's scales for both" else t["sfb2"]
    x = total(a, scaled(t["B1"], t["sfb1"], of_b)).float()
    y = total(a, scaled(t["B2"], second, of_b)).float()
    c = GATED.get(mistake, lambda x, y: x / (1 + (-x).exp()) * y)(x, y).half()
    if mistake == "one element is an ulp off":
        c.view(torch.int16)[5, 7] += 1
    return c


def worst(c, expected, size):
    return float(roundoff_error(GATE, c, expected, size).max()) / GATE.limit


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_oracle_is_silu_of_one_sum_times_the_other(scenario):
    """Sums by fractions, of which none is rounded."""
    t, c, _ = drawn(scenario)
    for row, column in ((0, 0), (36, 47), (3, 30)):
        a = (t["A"][row], t["sfa"][row])
        x, y = (float(exact_sum(a, (t[f"B{i}"][column], t[f"sfb{i}"][column]))) for i in (1, 2))
        assert float(c[row, column]) == pytest.approx(x / (1 + math.exp(-x)) * y, rel=1e-12, abs=1e-30)


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_both_layouts_hold_the_same_scales(scenario):
    plain, c, size = drawn(scenario, M=130, N=144)
    tiled, same_c, same_size = drawn(scenario, M=130, N=144, TILED=1)
    assert torch.equal(c, same_c)
    assert torch.equal(size, same_size)
    for name, rows in (("sfa", 130), ("sfb1", 144), ("sfb2", 144)):
        for row, block in ((0, 0), (33, 5), (127, 63), (rows - 1, 62)):
            assert by_tile(tiled[name], row, block) == float(plain[name][row, block])


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
@pytest.mark.parametrize("K", [256, 7168])
def test_outputs_are_fp16s_and_gates_of_both_signs(scenario, K):
    t, c, _ = drawn(scenario, M=64, N=256, K=K)
    assert float(c.square().mean().sqrt()) > 0.05
    assert float(c.abs().max()) < 65504 / 4
    gates = scaled(t["A"], t["sfa"]) @ scaled(t["B1"], t["sfb1"]).T
    if scenario != "like-signs":
        assert 0.2 < float((gates < 0).double().mean()) < 0.8
    assert float(gates.abs().median()) > 0.05


def test_what_bounds_it():
    workload = OP.suite("nvidia").workloads[1]
    assert (workload.M, workload.N, workload.K) == (512, 4096, 7168)
    assert OP.flops(workload) == {"fp4": 4 * 512 * 4096 * 7168}
    assert OP.instead == {"fp4": "fp16"}
    moved = 2 * 4096 * 7168 * 9 // 16
    assert OP.copy_bytes(workload) == moved + 2 * 512 * 4096
    assert OP.copy_bytes(workload) < OP.traffic_bytes(workload)


def test_the_reading_floor_leaves_what_it_read():
    t, *_ = drawn("all-codes", M=3, N=16, K=256)
    left = OP.copy(t, OP.workload(Shape(M=3, N=16, K=256)))["C"]
    found = []
    for number in (1, 2):
        every = 0
        for byte in [*t[f"B{number}"][9].tolist(), *t[f"sfb{number}"].view(torch.uint8)[9].tolist()]:
            every ^= byte
        found.append(every)
    assert (left.view(torch.int16)[:, 9].int() & 0xFFFF).tolist() == [found[0] | found[1] << 8] * 3


@pytest.mark.parametrize(("sizes", "told"), [({"K": 128}, "K=128 is no multiple of 256"), ({"N": 40}, "N=40 is no")])
def test_sizes_that_no_wide_load_takes_are_refused(sizes, told):
    assert told in OP.check(OP.workloads.workload(sizes))


KERNELS = (
    "nvfp4-dual-gemm-scaled",
    "nvfp4-dual-gemm-scaled:BN=32:BK=128",
    "nvfp4-dual-gemm-upcast",
    "nvfp4-dual-gemm-upcast:BM=16:BN=128:BK=128",
    "nvfp4-dual-gemm-floor-read",
    "nvfp4-dual-gemm-floor-read:WARPS=32:EACH=1",
)
WORKLOADS = ("M=37 N=80 K=256 plain", "M=130 N=144 K=256 tiled")
AT = "M=37 N=16 K=256 tiled"
SPOILED = {
    "silu of the other product": ("upcast", "(gate * FROM_BOTH, other *", "(other * FROM_BOTH, gate *"),
    "silu of a sum that is too small": ("upcast", "gated(gate * FROM_BOTH", "gated(gate"),
    "silu is missing": ("scaled", "return gate / (1.0 + tl.exp(-gate)) * other", "return gate * other"),
    "the gate goes through fp16": ("scaled", "of_c, gated(gate,", "of_c, gated(gate.to(tl.float16).to(tl.float32),"),
    "C goes through bf16": ("scaled", "gated(gate, other).to", "gated(gate, other).to(tl.bfloat16).to"),
    "the first B's scales for both": ("scaled", "tile_of_scales(sfb2", "tile_of_scales(sfb1"),
    "halves of bytes exchanged in one factor": ("upcast", "widened(b2, scale_2)", "widened(b2 >> 4, scale_2)"),
    "tiles of scales of plain ones": ("upcast", "if TILED:", "if not TILED:"),
}  # fmt: skip


@pytest.fixture(scope="module")
def interpreted(request, tmp_path_factory):
    return try_kernels(request, "nvfp4-dual-gemm", WORKLOADS, SPOILED, AT, tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_kernels_are_right_where_there_is_no_gpu(interpreted, kernel, workload):
    assert interpreted.kernels[kernel, workload] == ("ok", "")


@pytest.mark.parametrize("mistake", SPOILED)
def test_a_spoiled_kernel_is_refused(interpreted, mistake):
    assert interpreted.mistakes[mistake][0] == "wrong-numbers"


def test_the_reference_is_right_on_a_cpu():
    sizes = "M=37 N=144 K=256 scales=plain,tiled"
    done = answer("verify", "nvfp4-dual-gemm-reference", "--gpu", "cpu", "--shape", sizes)
    assert done.code == 0, done.err
    assert "fail" not in done.out
