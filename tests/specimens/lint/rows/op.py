"""Rows of bf16 as fp32, and their sums: the op of kernels that show one mistake each, or how to avoid it."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="rows",
    title="rows as fp32, and their sums",
    workloads=WorkloadSpec(
        axes=(Axis("M", default=1000, doc="rows"), Axis("N", default=128, doc="columns", compile_time=True))
    ),
    inputs=(TensorSpec("x", ("M", "N"), "bf16"), TensorSpec("w", ("N", "N"), "fp32")),
    outputs=(TensorSpec("y", ("M", "N"), "fp32"), TensorSpec("total", ("M",), "fp32")),
    gates=(RoundoffGate("y"), RoundoffGate("total")),
    suites={"verify": (Shape(M=7), Shape(M=1000)), "large": (Shape(M=20_000_000),)},
)
