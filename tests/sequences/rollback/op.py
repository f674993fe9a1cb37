"""Draft tokens with a slot for each: the state behind each token is kept, and the last accepted one is gone on from.

Sequence n reads pool[slots[n, accepted[n] - 1]], `accepted` being those of its round before, and writes the state
behind token t to pool[slots[n, t]]. Slots of 0 or less are padding, whose output is zero. The mathematics is verify's.
"""

from gdnbench import Axis, Op, RoundoffGate, SequenceRole, TensorSpec, WorkloadSpec

op = Op(
    name="rollback",
    title="draft tokens with a slot for each",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("T", default=3, doc="draft tokens of each sequence", compile_time=True),
            Axis("HQ", default=1, doc="query and key heads", compile_time=True),
            Axis("HV", default=2, doc="value heads", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True),
            Axis("STATE", default=32, doc="bits of a state's element", compile_time=True),
            Axis("BETA", default=1, doc="beta_limit", compile_time=True),
        )
    ),
    derived={"slots_of_pool": lambda _: 64, "mixed": lambda w: 2 * w.HQ * w.K + w.HV * w.V},
    inputs=(
        TensorSpec("mixed_qkv", ("B", "T", "mixed"), "bf16"),
        TensorSpec("a", ("B", "T", "HV"), "bf16"),
        TensorSpec("b", ("B", "T", "HV"), "bf16"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("pool", ("slots_of_pool", "HV", "V", "K"), "fp32"),
        TensorSpec("slots", ("B", "T"), "int32"),
        TensorSpec("accepted", ("B",), "int32"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "T", "HV", "V"), "bf16"),
        TensorSpec("new_pool", ("slots_of_pool", "HV", "V", "K"), "fp32"),
    ),
    sequences=SequenceRole("verify", state=("pool", "new_pool"), slot="slots", accepted="accepted"),
    gates=(RoundoffGate("output"), RoundoffGate("new_pool")),
)
