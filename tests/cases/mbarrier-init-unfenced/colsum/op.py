"""colsum: an op of a bug hunt."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="colsum",
    title="colsum",
    workloads=WorkloadSpec(
        axes=(
            Axis("T", default=8, doc="tiles"),
            Axis("G", default=4, doc="groups"),
            Axis("C", default=1, doc="unused", compile_time=True),
        )
    ),
    inputs=(TensorSpec("x", ("G", "T", 128), "fp32"),),
    outputs=(TensorSpec("y", ("G", 128), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"verify": (Shape(T=5, G=2), Shape(T=8, G=4))},
)
