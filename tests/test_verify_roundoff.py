"""The roundoff gate at its edge, for any op: what arithmetic of a type may make of the inputs passes, and no more."""

from types import SimpleNamespace

import pytest
import torch
from faults import REPOSITORY

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import DeclarationError
from gdnbench.launch import Workspace, load_numerics
from gdnbench.model.declaration import ExactGate, RoundoffGate, TensorSpec, UlpGate
from gdnbench.model.op import Op
from gdnbench.model.workload import Shape
from gdnbench.model.workload_spec import Axis, WorkloadSpec
from gdnbench.verify.check import check_outputs, consult_oracle
from gdnbench.verify.gates import roundoff_gate

GATE = RoundoffGate("y", limit=8.0)
ROUNDOFF = 2.0**-24
TOYS = load_catalog([REPOSITORY / "tests" / "toys"])


def judge(actual, expected, size, gate=GATE):
    wide = torch.as_tensor(expected, dtype=torch.float64)
    return roundoff_gate(gate, "typical", torch.as_tensor(actual), wide, torch.as_tensor(size), ("N",))


@pytest.mark.parametrize("size", [1.0, 3.0, 1e6])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_limit_counts_roundoffs_of_the_size_and_not_of_the_value(size, sign):
    expected = torch.zeros(1, dtype=torch.float64)  # as terms that cancel leave it
    for times, passed in ((7.999, True), (8.001, False)):
        found = judge((expected + sign * times * size * ROUNDOFF).float(), expected, [size])
        assert found.worst == pytest.approx(times, rel=1e-5)
        assert (found.passed, found.limit) == (passed, 8.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rounding_to_the_tensors_own_type_costs_nothing(dtype):
    # Of fp32, for torch rounds float64 to bf16 by way of fp32, which is one rounding more.
    expected = torch.cat([torch.logspace(-4, 4, 4001), torch.zeros(1)]).double()
    found = judge(expected.to(dtype), expected, torch.zeros_like(expected))
    assert (found.passed, found.worst) == (True, 0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [1.0, 2.0**13, 2.0**15], ids=["fp32's", "bf16's", "four of bf16's"])
def test_an_error_and_then_a_rounding_pass_wherever_they_end(dtype, size):
    """The next power of two has another ulp, and an error of an ulp may lead over it and then to the number behind."""
    random = torch.Generator().manual_seed(0)
    near = 1 + (torch.rand(200_000, generator=random, dtype=torch.float64) - 0.5) * 2**-6  # on both sides of 1
    off = 8 * size * ROUNDOFF * (2 * torch.rand(near.shape, generator=random, dtype=torch.float64) - 1)
    assert judge((near + off).to(dtype), near, torch.full_like(near, size)).passed
    assert not judge((near + 2 * off + 2**-7).to(dtype), near, torch.full_like(near, size)).passed


def test_twice_rounded_fails():
    random = torch.Generator().manual_seed(0)
    expected = torch.randn(1024, generator=random, dtype=torch.float64)
    twice = (0.3 * expected.bfloat16().double() / 0.3).bfloat16()
    sums = (0.3 * (expected / 0.3).bfloat16().double()).bfloat16()
    assert judge(twice, expected, expected.abs()).passed
    assert not judge(sums, expected, expected.abs()).passed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_never_passes(value):
    found = judge(torch.tensor([1.0, value]), [1.0, 1.0], [1e30, 1e30])
    assert (found.passed, found.worst, found.where) == (False, float("inf"), "[1]")


def test_an_element_that_may_have_no_error_must_have_none():
    assert judge([1.0], [1.0], [0.0]).passed
    assert not judge([1.0 + 2**-22], [1.0], [0.0]).passed


def test_what_is_below_the_normal_numbers_may_be_flushed_to_zero():
    assert judge([0.0, 0.0], [2.0**-127, -1e-300], [0.0, 0.0]).passed
    assert not judge([0.0], [2.0**-124], [0.0]).passed


def test_the_roundoff_is_that_of_the_arithmetic_named():
    off = torch.tensor([1 + 4 * 2.0**-11])
    assert judge(off, [1.0], [1.0], RoundoffGate("y", arithmetic="fp16")).passed
    assert not judge(off, [1.0], [1.0]).passed


def test_a_size_for_each_row_is_broadcast():
    expected = torch.zeros(3, 4, dtype=torch.float64)
    actual = torch.tensor([1.0, 10.0, 100.0])[:, None].expand(3, 4) * ROUNDOFF
    assert judge(actual, expected, torch.tensor([[1.0], [10.0], [100.0]])).worst == pytest.approx(1.0)


def toy(name, **sizes):
    """An op under tests/toys, and a workspace of its inputs with what is expected of them."""
    op = TOYS.ops[name]
    numerics = load_numerics(op, TOYS.op_folders[name])
    workload = op.workload(Shape(**sizes))
    workspace = Workspace.make(op, numerics, workload, seed=3, device="cpu", scenario=op.scenarios[-1])
    return op, workspace, consult_oracle(workspace, numerics)


def accuracy(op, outputs, expected):
    return check_outputs(op, outputs, expected, "typical")[1]


def test_a_product_of_matrices_passes_in_any_order_of_fp32_and_not_with_sums_in_bf16():
    op, workspace, expected = toy("gemm", M=65, N=40, Kd=512)
    products = workspace.inputs["A"].float()[:, None] * workspace.inputs["B"].float()[None]
    running = torch.zeros(65, 40)
    for term in products.unbind(-1):
        running = running + term
    for honest in (products.sum(-1), running):
        assert accuracy(op, (honest.bfloat16(),), expected).passed
    halves = products.unflatten(-1, (2, -1)).sum(-1).bfloat16().float().sum(-1)
    missing = products[..., :-1].sum(-1)
    for wrong in (halves, missing):
        assert not accuracy(op, (wrong.bfloat16(),), expected).passed


def test_running_sums_pass_in_fp32_and_not_in_tf32_or_with_one_term_left_out():
    op, workspace, expected = toy("ragged", lengths=(300, 0, 7))
    x, scale, owner = workspace.inputs["x"], workspace.scalars["scale"], expected.outputs["owner"].int()

    def sums(x):
        return scale * torch.cat([part.cumsum(0) for part in x.split((300, 0, 7))])

    assert accuracy(op, (sums(x), owner), expected).passed
    cut = (x.view(torch.int32) & ~0x1FFF).view(torch.float32)
    without = x.clone()
    without[5] = 0
    for wrong in (cut, without):
        assert not accuracy(op, (sums(wrong), owner), expected).passed


def op_with(*gates):
    return Op(
        name="scale",
        title="y = 2 x",
        workloads=WorkloadSpec(axes=(Axis("N", default=8),)),
        inputs=(TensorSpec("x", ("N",), "fp32"),),
        outputs=(TensorSpec("y", ("N",), "fp32"),),
        gates=gates,
    )


def numerics_with(**functions):
    return SimpleNamespace(
        make_inputs=lambda workload, seed, device, scenario: ({"x": torch.ones(workload.N)}, {}),
        oracle=lambda tensors, scalars: {"y": 2 * tensors["x"].double()},
        **functions,
    )


def expected_of(op, numerics):
    workspace = Workspace.make(op, numerics, op.default, seed=0, device="cpu", scenario="typical")
    return consult_oracle(workspace, numerics)


def _raises(_x):
    raise ValueError("no such thing")


GIVEN = {
    "None": (lambda x: None, "gives None; it must give tensors by name: y"),
    "a tensor": (lambda x: x, "gives a Tensor; it must give tensors by name: y"),
    "two values": (lambda x: (x, x), "gives a tuple of 2; it must give tensors by name: y"),
    "nothing": (lambda x: {}, "gives nothing, and no y; it must give tensors by name: y"),
    "another name": (lambda x: {"z": x}, "gives z, and no y; it must give tensors by name: y"),
    "no tensor": (lambda x: {"y": 1.0}, "y is a float, not a tensor; it must give tensors by name: y"),
    "None by name": (lambda x: {"y": None}, "y is a NoneType, not a tensor"),
    "shape": (lambda x: {"y": x[:3]}, "y is (3,)"),
    "NaN": (lambda x: {"y": x * torch.nan}, "infinite or NaN"),
    "infinite": (lambda x: {"y": x / 0}, "infinite or NaN"),
    "an error": (_raises, "fails: ValueError: no such thing"),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("function", ["oracle", "roundoff"])
def test_what_an_ops_numerics_give_amiss_is_told_of_them(function, given):
    gives, told = GIVEN[given]
    numerics = numerics_with(roundoff=lambda tensors, scalars: {"y": tensors["x"]})
    setattr(numerics, function, lambda tensors, scalars: gives(tensors["x"].double()))
    with pytest.raises(DeclarationError) as caught:
        expected_of(op_with(RoundoffGate("y")), numerics)
    assert f"{function}() in numerics.py of scale" in caught.value.message
    assert told in caught.value.message


def test_infinities_that_are_compared_exactly_are_an_oracles_to_give():
    numerics = numerics_with()
    numerics.oracle = lambda tensors, scalars: {"y": tensors["x"].double() / 0}
    assert expected_of(op_with(ExactGate("y")), numerics).outputs["y"].isinf().all()


def test_an_op_that_declares_no_roundoff_needs_none():
    op = op_with(UlpGate("y", ulps=1, atol=0))
    expected = expected_of(op, numerics_with())
    assert not expected.roundoff
    assert accuracy(op, (torch.full((8,), 2.0),), expected).passed


@pytest.mark.parametrize(
    ("functions", "why"),
    [
        ({}, r"must define roundoff\(\), for the gate on y"),
        ({"roundoff": lambda tensors, scalars: {"z": tensors["x"]}}, "gives z, and no y"),
        (
            {"roundoff": lambda tensors, scalars: {"y": torch.ones(3)}},
            r"y is \(3,\), which does not broadcast to \(8,\)",
        ),
        ({"roundoff": lambda tensors, scalars: {"y": torch.ones(1, 8)}}, "does not broadcast"),
        ({"roundoff": lambda tensors, scalars: {"y": -tensors["x"]}}, "negative"),
        ({"roundoff": lambda tensors, scalars: {"y": tensors["x"] / 0}}, "infinite"),
        ({"roundoff": lambda tensors, scalars: {"y": tensors["x"] * float("nan")}}, "NaN"),
    ],
)
def test_a_size_that_would_hold_nothing_is_refused(functions, why):
    with pytest.raises(DeclarationError, match=why):
        expected_of(op_with(RoundoffGate("y")), numerics_with(**functions))


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        (RoundoffGate("y", limit=0.0), "lets nothing pass"),
        (RoundoffGate("y", limit=float("nan")), "lets nothing pass"),
        (RoundoffGate("y", arithmetic="int8"), "'int8' is not one of bf16"),
        (RoundoffGate("y", arithmetic="fp31"), "'fp31' is not one of bf16"),
        (RoundoffGate("x"), "x, which is not an output"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused_when_declared(gate, why):
    with pytest.raises(DeclarationError, match=why):
        op_with(gate)


def test_integers_have_no_roundoff():
    with pytest.raises(DeclarationError, match="owner: int32 has no ulp"):
        Op(
            name="count",
            title="y = N",
            workloads=WorkloadSpec(axes=(Axis("N", default=8),)),
            inputs=(TensorSpec("x", ("N",), "fp32"),),
            outputs=(TensorSpec("owner", ("N",), "int32"),),
            gates=(RoundoffGate("owner"),),
        )
