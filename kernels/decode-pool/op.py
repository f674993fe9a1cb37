"""The decode step as servers call it: tensors packed as the layer before leaves them, and states in a pool.

Sequence n has its state [HV, V, K] in slot[n] of the pool, where it is updated; the other slots stay as they are. A
slot of 0 or less is no sequence, but padding of the batch: its output is zero, and nothing of the pool is touched.

mixed_qkv[n] is queries [HQ, K], keys [HQ, K] and values [HV, V], one after the other. Per value head h, which reads
query and key head h // (HV // HQ), in fp32:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6)
    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = beta_limit * sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  output = scale * (S @ q)

A pool in bf16 halves what a step moves. Each step then rounds S once, when it is stored; the output is of S before.
The limit is 1, or 2 in models where a step may turn a direction of the state round (OLMo-Hybrid).
"""

from gdnbench import (
    Alias,
    Axis,
    DtypeOf,
    Op,
    RoundoffGate,
    Sequences,
    Shape,
    TensorSpec,
    Workload,
    WorkloadSpec,
)
from gdnbench.decays import DECODE_PROFILES

FEWEST_SLOTS = 64
SLOTS_PER_SEQUENCE = 4
"""A server keeps the states of many more sequences than are in a step's batch."""
STATE = DtypeOf("STATE", {32: "fp32", 16: "bf16"})


def slots(workload: Workload) -> int:
    """Slots of the pool; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def mixed(workload: Workload) -> int:
    """Elements of a token's queries, keys and values."""
    return 2 * workload.HQ * workload.K + workload.HV * workload.V


def state_bytes(workload: Workload) -> int:
    """Of the states that are updated, read once and written once."""
    return 2 * (workload.STATE // 8) * workload.B * workload.HV * workload.V * workload.K


def least_bytes(workload: Workload) -> int:
    """These states, and each other tensor once."""
    B, HV = workload.B, workload.HV
    bf16 = B * (mixed(workload) + 2 * HV + HV * workload.V)
    return state_bytes(workload) + 2 * bf16 + 4 * (2 * HV + B)


def flops(workload: Workload) -> dict[str, int]:
    """Per state element as for `decode`: 7; per row 3; and the norms of queries and keys, 3 an element."""
    rows = workload.B * workload.HV * workload.V
    return {"fp32": rows * (7 * workload.K + 3) + 6 * workload.B * workload.HQ * workload.K}


def check(workload: Workload) -> str:
    """Value heads share query heads evenly."""
    if workload.HV % workload.HQ == 0:
        return ""
    return f"HV={workload.HV} is no multiple of HQ={workload.HQ}: value heads share query heads evenly"


BATCHES = (1, 8, 32, 128)
MODELS = {
    "Qwen3-Next": {"HQ": 16, "HV": 32},
    "Qwen3.5-397B": {"HQ": 16, "HV": 64},
    "Qwen3.5-27B": {"HQ": 16, "HV": 48},
    "Qwen3.5-2B": {"HQ": 16, "HV": 16},
    "Qwen3-Next on two GPUs": {"HQ": 8, "HV": 16},
    "OLMo-Hybrid": {"HQ": 30, "HV": 30, "K": 96, "V": 192, "BETA": 2},
}
"""Heads of the models in use. On four GPUs Qwen3-Next's are the default; 122B has those of 397B; 35B, 9B and 4B its."""

op = Op(
    name="decode-pool",
    title="one decode step of Gated Delta Net, its states in a pool",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("HQ", default=4, doc="query and key heads", compile_time=True),
            Axis("HV", default=8, doc="value heads; h reads query/key head h // (HV // HQ)", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
            Axis("STATE", default=32, doc="bits of a state's element", compile_time=True),
            Axis("BETA", default=1, doc="beta_limit", compile_time=True, terse=True, most=2),
        ),
        aliases=(
            Alias("heads", "qk{HQ}_v{HV}", known=("qk4_v8", "qk16_v32", "qk16_v64", "qk16_v48", "qk16_v16", "qk8_v16")),
            Alias("state", "{STATE}", words={"fp32": 32, "bf16": 16}),
        ),
        size=("B", "HV"),
    ),
    check=check,
    derived={"slots": slots, "mixed": mixed},
    inputs=(
        TensorSpec("mixed_qkv", ("B", "mixed"), "bf16"),
        TensorSpec("a", ("B", "HV"), "bf16"),
        TensorSpec("b", ("B", "HV"), "bf16"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("pool", ("slots", "HV", "V", "K"), STATE),
        TensorSpec("slot", ("B",), "int32"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "HV", "V"), "bf16"),
        TensorSpec("new_pool", ("slots", "HV", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=("typical", "padded", "saturated-gates", "large-state", "small-keys"),
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    sequences=Sequences("B", "decode", state=("pool", "new_pool"), slot="slot", shape={"HQ": 1, "HV": 2}),
    alike=("HQ", "HV"),
    process_sd=(0.003, 0.022),  # of results/evidence/*-decode-pool-processes, on four cards
    gates=(RoundoffGate("output"), RoundoffGate("new_pool")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("decode-pool-flashinfer", "decode-pool-fla", "decode-pool-reference"),
    floor="decode-pool-floor-copy",
    copy=("pool", "new_pool"),
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "bf16": tuple(Shape(B=batch, STATE=16) for batch in (1, 4, 8, 32, 64, 128)),
        "models": tuple(
            Shape(name, B=batch, STATE=state, **heads)
            for name, heads in MODELS.items()
            for state in (32, 16)
            for batch in BATCHES
        ),
        "verify": (
            *(Shape(B=batch) for batch in (1, 3, 13, 64)),
            *(Shape(B=batch, STATE=16) for batch in (1, 13)),
            *(Shape(B=3, STATE=state, **MODELS["OLMo-Hybrid"]) for state in (32, 16)),
        ),
    },
    macro_prefix="GDN_",
)
