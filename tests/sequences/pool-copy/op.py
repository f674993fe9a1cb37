"""Copies states from slots of a pool to other slots of it, as an engine does for a checkpoint."""

from gdnbench import Axis, ExactGate, Op, Sequences, TensorSpec, WorkloadSpec

op = Op(
    name="pool-copy",
    title="states copied to other slots of a pool",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="states"),
            Axis("slots", default=64, doc="of the pool"),
            Axis("HV", default=2, doc="value heads"),
            Axis("K", default=128, doc="size of a key head"),
            Axis("V", default=128, doc="size of a value head"),
        )
    ),
    inputs=(
        TensorSpec("pool", ("slots", "HV", "V", "K"), "fp32"),
        TensorSpec("source", ("B",), "int32"),
        TensorSpec("target", ("B",), "int32"),
    ),
    outputs=(TensorSpec("new_pool", ("slots", "HV", "V", "K"), "fp32"),),
    sequences=Sequences("B", "copy", state=("pool", "new_pool"), slot="source", to="target"),
    gates=(ExactGate("new_pool"),),
)
