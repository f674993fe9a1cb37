"""y = x: an op whose copying floor has three forms, any of which can be made slow; see `test_floor_forms.py`."""

from gdnbench import Axis, ExactGate, Op, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="moves",
    title="y = x",
    workloads=WorkloadSpec(axes=(Axis("N", default=64, doc="numbers"),)),
    inputs=(TensorSpec("x", ("N",), "int32"),),
    outputs=(TensorSpec("y", ("N",), "int32"),),
    gates=(ExactGate("y"),),
    baselines=("moves-torch",),
    floor="moves-floor",
    copy=("x", "y"),
    suites={"default": (Shape(N=64), Shape(N=128))},
)
