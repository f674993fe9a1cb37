"""Prefill that also keeps the state after every so many tokens of each sequence, as a prefix cache has it.

The recurrence, its tensors and its layout are those of `prefill`. Of a sequence of n tokens there are floor(n / EVERY)
checkpoints: number j, from 0 on, is the state after (j + 1) EVERY tokens. So the state that a sequence begins with is
none of them, and its last state is one where EVERY divides n. Those of sequence i stand from checkpoint_cu_starts[i]
on.

Checkpoints are in fp32, as the state is: one that is rounded is another state to go on from.
"""

from gdnbench import Alias, Axis, AxisList, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import PROFILES

CHUNK = 64
"""Tokens that chunked kernels take at once."""

KNOWN_HEADS = ("qk4_v8", "qk16_v32", "qk2_v8", "qk4_v16", "qk8_v32", "qk16_v64")


def checkpoints(workload: Workload) -> int:
    """Checkpoints of all sequences."""
    return sum(length // workload.EVERY for length in workload.lengths)


def flops(workload: Workload) -> dict[str, int]:
    """As for `prefill`: per state element and token 2 each for S @ k, the update and S @ q."""
    return {"bf16": 6 * sum(workload.lengths) * workload.HV * workload.V * workload.K}


def check(workload: Workload) -> str:
    """Value heads share query heads evenly, checkpoints are where chunks end, and there is one."""
    if workload.HV % workload.HQ:
        return f"HV={workload.HV} is no multiple of HQ={workload.HQ}: value heads share query heads evenly"
    if workload.EVERY % CHUNK:
        return f"EVERY={workload.EVERY} is no multiple of {CHUNK}, the tokens of a chunk"
    return "" if checkpoints(workload) else f"no sequence has EVERY={workload.EVERY} tokens"


op = Op(
    name="prefill-checkpoints",
    title="Gated Delta Net over sequences, the state kept after every EVERY tokens",
    workloads=WorkloadSpec(
        axes=(
            Axis("EVERY", default=512, doc="tokens between checkpoints, a multiple of 64", compile_time=True),
            Axis("HQ", default=4, doc="query and key heads", compile_time=True),
            Axis("HV", default=8, doc="value heads; h reads query/key head h // (HV // HQ)", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
        ),
        lists=(AxisList("lengths", default=(1024,), doc="tokens of each sequence"),),
        aliases=(Alias("heads", "qk{HQ}_v{HV}", known=KNOWN_HEADS),),
        x="lengths",
        size=("lengths", "HV"),
    ),
    check=check,
    derived={
        "T": lambda workload: sum(workload.lengths),
        "N": lambda workload: len(workload.lengths),
        "ENDS": lambda workload: len(workload.lengths) + 1,
        "CHECKPOINTS": checkpoints,
    },
    inputs=(
        TensorSpec("q", ("T", "HQ", "K"), "bf16"),
        TensorSpec("k", ("T", "HQ", "K"), "bf16"),
        TensorSpec("v", ("T", "HV", "V"), "bf16"),
        TensorSpec("state", ("N", "HV", "V", "K"), "fp32"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("a", ("T", "HV"), "bf16"),
        TensorSpec("b", ("T", "HV"), "bf16"),
        TensorSpec("cu_seqlens", ("ENDS",), "int64"),
        TensorSpec("checkpoint_cu_starts", ("ENDS",), "int64"),
    ),
    scalars=("scale",),
    outputs=(
        TensorSpec("output", ("T", "HV", "V"), "bf16"),
        TensorSpec("new_state", ("N", "HV", "V", "K"), "fp32"),
        TensorSpec("checkpoints", ("CHECKPOINTS", "HV", "V", "K"), "fp32"),
    ),
    numerics="numerics.py",
    scenarios=("typical", "slow-decay", "saturated-gates", "large-state", "closed-gates"),
    profiles=PROFILES,
    profile="mixed-heads",
    drawn_together=(("A_log", "dt_bias", "a"),),
    ends={"lengths": "cu_seqlens"},
    sequences=Sequences(
        "N",
        "prefill",
        state=("state", "new_state"),
        checkpoints="checkpoints",
        every="EVERY",
        starts="checkpoint_cu_starts",
        shape={"EVERY": CHUNK, "HQ": 1, "HV": 2},
        gates=("a", "b"),
        grid=CHUNK,
    ),
    alike=("HQ", "HV"),
    gates=tuple(RoundoffGate(name, arithmetic="bf16") for name in ("output", "new_state", "checkpoints")),
    flops=flops,
    baselines=("prefill-checkpoints-flashinfer", "prefill-checkpoints-reference"),
    suites={
        "default": (
            Shape(lengths=(1024,)),
            Shape(lengths=(8192,)),
            Shape(lengths=(65536,)),
            Shape(lengths=(1024,) * 8),
        ),
        "every": tuple(Shape(lengths=(8192,), EVERY=every) for every in (64, 256, 512, 1024, 2048)),
        "verify": (
            Shape(lengths=(64,), EVERY=64),
            Shape(lengths=(65, 0, 200), EVERY=64),
            Shape(lengths=(5, 256, 0, 130), EVERY=128, HQ=1, HV=2),
            Shape(lengths=(1100,), HQ=1, HV=2),
        ),
    },
    macro_prefix="GDN_",
)
