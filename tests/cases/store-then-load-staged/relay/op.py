"""relay: an op of a bug hunt."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="relay",
    title="relay",
    workloads=WorkloadSpec(
        axes=(
            Axis("M", default=16, doc="rows"),
            Axis("N", default=512, doc="columns", compile_time=True),
            Axis("C", default=1, doc="unused", compile_time=True),
        )
    ),
    inputs=(TensorSpec("x", ("M", "N"), "fp32"),),
    outputs=(TensorSpec("buffer", ("M", "N"), "fp32"), TensorSpec("y", ("M", "N"), "fp32")),
    gates=(RoundoffGate("buffer"), RoundoffGate("y")),
    suites={"verify": (Shape(M=4), Shape(M=16))},
)
