"""odd: an op of a bug hunt."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="odd",
    title="odd",
    workloads=WorkloadSpec(
        axes=(
            Axis("M", default=8, doc="rows"),
            Axis("N", default=30, doc="columns", compile_time=True),
            Axis("C", default=1, doc="unused", compile_time=True),
        )
    ),
    inputs=(TensorSpec("x", ("M", "N"), "fp32"),),
    outputs=(TensorSpec("y", ("M",), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"verify": (Shape(M=4), Shape(M=8), Shape(M=4, N=32))},
)
