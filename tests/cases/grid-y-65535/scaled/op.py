"""scaled: an op of a bug hunt."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="scaled",
    title="scaled",
    workloads=WorkloadSpec(
        axes=(
            Axis("N", default=8, doc="sequences"),
            Axis("H", default=32, doc="heads", compile_time=True),
            Axis("C", default=1, doc="unused", compile_time=True),
        )
    ),
    inputs=(TensorSpec("x", ("N", "H", 16), "fp32"),),
    outputs=(TensorSpec("y", ("N", "H", 16), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"default": (Shape(N=8), Shape(N=2048)), "verify": (Shape(N=2), Shape(N=2048))},
)
