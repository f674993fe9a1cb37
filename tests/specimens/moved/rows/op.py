"""Rows of bf16, doubled, plus one: the op of a kernel that shows a mistake, and one that avoids it."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="rows",
    title="y = 2 x + 1",
    workloads=WorkloadSpec(
        axes=(Axis("M", default=1000, doc="rows"), Axis("N", default=128, doc="columns", compile_time=True))
    ),
    inputs=(TensorSpec("x", ("M", "N"), "bf16"), TensorSpec("total", ("M",), "fp32")),
    outputs=(TensorSpec("y", ("M", "N"), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"verify": (Shape(M=7),)},
)
