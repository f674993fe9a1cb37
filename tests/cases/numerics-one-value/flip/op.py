"""flip: an op of a bug hunt."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="flip",
    title="flip",
    workloads=WorkloadSpec(
        axes=(Axis("M", default=64, doc="rows"), Axis("C", default=1, doc="unused", compile_time=True))
    ),
    inputs=(TensorSpec("x", ("M", 32), "fp32"),),
    outputs=(TensorSpec("y", ("M", 32), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"verify": (Shape(M=8), Shape(M=64))},
)
