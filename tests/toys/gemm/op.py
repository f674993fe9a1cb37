"""C = A Bᵀ: an op with three axes, one of them known to the compiler, and operations that bound it."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, Workload, WorkloadSpec


def flops(workload: Workload) -> dict[str, int]:
    """A product and a sum for each of M x N x Kd."""
    return {"bf16": 2 * workload.M * workload.N * workload.Kd}


op = Op(
    name="gemm",
    title="C = A Bᵀ in bf16",
    workloads=WorkloadSpec(
        axes=(
            Axis("M", default=64, doc="rows of A and C"),
            Axis("N", default=48, doc="columns of C", compile_time=True),
            Axis("Kd", default=32, doc="columns of A and of B", compile_time=True),
        )
    ),
    inputs=(TensorSpec("A", ("M", "Kd"), "bf16"), TensorSpec("B", ("N", "Kd"), "bf16")),
    outputs=(TensorSpec("C", ("M", "N"), "bf16"),),
    gates=(RoundoffGate("C"),),
    scenarios=("typical", "large"),
    flops=flops,
    baselines=("gemm-torch",),
    suites={"default": (Shape(M=64), Shape(M=128)), "verify": (Shape(M=1), Shape(M=65, N=40)), "grid": "grid.csv"},
)
