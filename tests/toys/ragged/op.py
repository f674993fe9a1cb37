"""Running sums of sequences of different lengths that stand one after the other, told apart by int64 offsets."""

from gdnbench import Alias, Axis, AxisList, ExactGate, Op, RoundoffGate, Shape, TensorSpec, Workload, WorkloadSpec


def check(workload: Workload) -> str:
    """There is something to sum."""
    return "" if sum(workload.lengths) else "every sequence is empty"


op = Op(
    name="ragged",
    title="running sums of sequences of different lengths",
    workloads=WorkloadSpec(
        axes=(
            Axis("H", default=2, doc="columns", compile_time=True),
            Axis("W", default=4, doc="parts of a column", compile_time=True),
        ),
        lists=(AxisList("lengths", default=(6, 0, 13), doc="of the sequences"),),
        aliases=(Alias("columns", "h{H}w{W}", known=("h2w4", "h1w8")),),
        x="lengths",
        size=("lengths", "H"),
    ),
    check=check,
    derived={"T": lambda workload: sum(workload.lengths), "ENDS": lambda workload: len(workload.lengths) + 1},
    inputs=(TensorSpec("x", ("T", "H", "W"), "fp32"), TensorSpec("offsets", ("ENDS",), "int64")),
    scalars=("scale",),
    outputs=(TensorSpec("y", ("T", "H", "W"), "fp32"), TensorSpec("owner", ("T",), "int32")),
    gates=(RoundoffGate("y"), ExactGate("owner")),
    flops=lambda workload: {"fp32": 2 * sum(workload.lengths) * workload.H * workload.W},
    baselines=("ragged-torch",),
    suites={
        "verify": (Shape(), Shape(lengths=(1,)), Shape(lengths=(5, 5, 5), H=1, W=8)),
        "long": {Shape(lengths=range(1, 60)): 2.0, Shape(lengths=(8, 1024)): 1.0},
    },
)
