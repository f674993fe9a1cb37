"""rowtop: an op of a bug hunt."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="rowtop",
    title="rowtop",
    workloads=WorkloadSpec(
        axes=(Axis("M", default=16, doc="rows"), Axis("C", default=1, doc="unused", compile_time=True))
    ),
    inputs=(TensorSpec("x", ("M", 256), "fp32"),),
    outputs=(TensorSpec("top", ("M",), "fp32"),),
    gates=(RoundoffGate("top"),),
    suites={"verify": (Shape(M=3), Shape(M=16))},
)
