from dataclasses import replace

import pytest
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.errors import DeclarationError
from gdnbench.model.declaration import DtypeOf, TensorSpec, UlpGate
from gdnbench.model.op import Op
from gdnbench.model.workload import Shape
from gdnbench.model.workload_spec import Alias, Axis, AxisList, WorkloadSpec

DECODE = CATALOG.ops["decode"]


def test_traffic_is_state_twice_and_the_small_tensors_once():
    workload = decode_at(B=2, HQ=1, HV=2, K=4, V=3)
    state = 2 * 2 * 3 * 4 * 4
    q_and_k, v_and_output, gates, constants = 2 * 2 * 4 * 2, 2 * 2 * 2 * 3 * 2, 2 * 2 * 2 * 2, 2 * 2 * 4
    assert DECODE.traffic_bytes(workload) == 2 * state + q_and_k + v_and_output + gates + constants


def test_the_contract_is_the_contests():
    workload = decode_at(B=3)
    sizes = {spec.name: (spec.sizes(DECODE.named_sizes(workload)), spec.dtype) for spec in DECODE.tensors}
    assert sizes == {
        "q": ((3, 1, 4, 128), "bf16"),
        "k": ((3, 1, 4, 128), "bf16"),
        "v": ((3, 1, 8, 128), "bf16"),
        "state": ((3, 8, 128, 128), "fp32"),
        "A_log": ((8,), "fp32"),
        "dt_bias": ((8,), "fp32"),
        "a": ((3, 1, 8), "bf16"),
        "b": ((3, 1, 8), "bf16"),
        "output": ((3, 1, 8, 128), "bf16"),
        "new_state": ((3, 8, 128, 128), "fp32"),
    }


def _op(**changed):
    declared = {
        "name": "scale",
        "title": "y = 2 x",
        "workloads": WorkloadSpec(axes=(Axis("N", default=8),)),
        "inputs": (TensorSpec("x", ("N",), "fp32"),),
        "outputs": (TensorSpec("y", ("N",), "fp32"),),
        "gates": (UlpGate("y", ulps=1, atol=0),),
    }
    return Op(**{**declared, **changed})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"inputs": ()}, "inputs"),
        ({"inputs": (TensorSpec("x", ("M",), "fp32"),)}, "M is neither an axis"),
        ({"inputs": (TensorSpec("N", (4,), "fp32"),)}, "N: .* twice"),
        ({"outputs": (TensorSpec("x", ("N",), "fp32"),), "gates": (UlpGate("x", 1, 0),)}, "x: .* twice"),
        ({"gates": ()}, "y: no gate"),
        ({"gates": (UlpGate("x", 1, 0), UlpGate("y", 1, 0))}, "x, which is not an output"),
        ({"outputs": (TensorSpec("y", ("N",), "int32"),)}, "y: int32 has no ulp"),
        ({"copy": ("x", "z")}, "copy"),
        ({"copy": ("x",)}, "copy"),
        ({"scenarios": ()}, "scenario"),
        ({"scenarios": "typical"}, "scenarios: a tuple"),
        ({"flops": lambda workload: {"bf17": 3}}, "bf17"),
        ({"instead": {"fp4": "fp17"}}, "fp17"),
        ({"derived": {"T": lambda workload: workload.N / 2}}, "T"),
        ({"check": lambda workload: "never"}, "never"),
        ({"suites": {"contest": {}}}, "contest"),
        ({"suites": {"contest": {Shape(N=0): 1}}}, "N=0"),
        ({"suites": {"contest": {Shape(M=1): 1}}}, "M"),
        ({"suites": {"contest": {Shape(N=1): 0}}}, "weight"),
        ({"suites": {"contest": {Shape(N=1): "x"}}}, "weight"),
        ({"name": "a b"}, "name"),
    ],
)
def test_what_does_not_fit_together_is_refused_when_declared(changed, why):
    with pytest.raises(DeclarationError, match=why):
        _op(**changed)


def test_sizes_may_follow_from_a_workload():
    spec = WorkloadSpec(axes=(Axis("H", default=2),), lists=(AxisList("lengths", default=(6, 4)),))
    op = _op(
        workloads=spec,
        derived={"T": lambda workload: sum(workload.lengths), "ENDS": lambda workload: len(workload.lengths) + 1},
        inputs=(TensorSpec("x", ("T", "H"), "bf16"), TensorSpec("ends", ("ENDS",), "int64")),
        outputs=(TensorSpec("y", ("T", "H"), "fp32"),),
    )
    assert op.traffic_bytes(op.default) == 10 * 2 * 2 + 3 * 8 + 10 * 2 * 4
    assert op.traffic_bytes(op.workload({"lengths": (1,)})) == 2 * 2 + 2 * 8 + 2 * 4


def test_a_workload_keeps_the_name_that_a_suite_gives_it_and_is_the_same_without():
    named = replace(DECODE, suites={"two": {Shape("small", B=1): 1, Shape(B=8): 2}}).suite("two").workloads
    assert [each.name for each in named] == ["small", ""]
    assert named[0] == decode_at(B=1)
    assert hash(named[0]) == hash(decode_at(B=1))
    assert Shape("small", B=1) == Shape(B=1)
    with pytest.raises(DeclarationError, match="not a short line"):
        Shape("two\nlines", B=1)


TYPED = DtypeOf("BITS", {32: "fp32", 16: "bf16"})


def typed_op(dtype=TYPED, **axis):
    """An op whose tensors' element type is its axis BITS."""
    axes = (Axis("N", default=4), Axis("BITS", default=32, **{"compile_time": True, **axis}))
    return Op(
        name="typed",
        title="",
        workloads=WorkloadSpec(axes=axes, aliases=(Alias("type", "{BITS}", words={"fp32": 32, "bf16": 16}),)),
        inputs=(TensorSpec("x", ("N",), dtype),),
        outputs=(TensorSpec("y", ("N",), dtype),),
        gates=(UlpGate("y", ulps=1.0, atol=0.0),),
    )


def test_an_axis_may_decide_an_element_type():
    op = typed_op()
    assert [op.tensor_bytes(op.workload(Shape(BITS=bits))) for bits in (32, 16)] == [32, 16]
    assert [spec.settled for spec in op.at({"BITS": 16}).tensors] == ["bf16", "bf16"]
    assert op.at({"BITS": 16}).at({"BITS": 32}).inputs[0].dtype == "bf16"  # settled once
    with pytest.raises(DeclarationError, match="by BITS"):
        _ = op.inputs[0].settled


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"compile_time": False}, "BITS is not an axis that kernels are compiled for"),
        ({"dtype": DtypeOf("KIND", {32: "fp32"})}, "KIND is not an axis"),
        ({"dtype": DtypeOf("BITS", {16: "bf16"})}, "BITS=32 is not an element type"),
        ({"dtype": DtypeOf("BITS", {32: "fp32", 8: "int8"})}, "int8 has no ulp"),
        ({"dtype": DtypeOf("BITS", {32: "float"})}, "no dtype 'float'"),
    ],
)
def test_an_element_type_that_does_not_fit_its_axis_is_refused(changed, reason):
    with pytest.raises(DeclarationError, match=reason):
        typed_op(**changed)


def test_an_alias_may_have_words_for_sizes():
    spec = typed_op().workloads
    assert spec.parse("type=bf16,fp32 N=8") == (({"BITS": 16}, {"BITS": 32}), ({"N": 8},))
    workload = spec.workload({"N": 8, "BITS": 16})
    assert (str(workload), workload.slug, workload.options) == (
        "N=8 bf16", "N8-bf16", ["--shape", "N=8", "--shape", "type=bf16"],
    )  # fmt: skip
    assert spec.read("N=8 bf16") == spec.read("N8-bf16") == workload
    with pytest.raises(Exception, match="there is no type fp8"):
        spec.parse("type=fp8")


@pytest.mark.parametrize("words", [{"a": 1, "b": 1}, {"a": 1}])
def test_words_are_for_one_axis_and_each_for_another_size(words):
    pattern = "{BITS}" if len(words) > 1 else "{BITS}{N}"
    with pytest.raises(DeclarationError, match="words are for the sizes of one axis"):
        Alias("type", pattern, words=words)
