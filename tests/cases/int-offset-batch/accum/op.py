"""accum: an op of a bug hunt."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="accum",
    title="accum",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=4, doc="batch"),
            Axis("H", default=16, doc="heads", compile_time=True),
            Axis("L", default=128, doc="rows"),
            Axis("D", default=128, doc="columns", compile_time=True),
            Axis("C", default=1, doc="unused", compile_time=True),
        )
    ),
    inputs=(TensorSpec("x", ("B", "H", "L", "D"), "fp32"),),
    outputs=(TensorSpec("y", ("B", "H", "L", "D"), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"large": (Shape(B=10000, L=128),), "verify": (Shape(B=1, L=4), Shape(B=2, L=8))},
)
