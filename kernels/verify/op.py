"""Gated Delta Net over the draft tokens of a step, as speculative decoding verifies them; states in a pool.

Sequence n has its state [HV, V, K] in slot[n] of the pool, which is only read: which of its T tokens are accepted is
known later, so the states are written elsewhere, after each token (keep=each) or after the last one (keep=last). A slot
of 0 or less is no sequence, but padding of the batch: its outputs and its states are zero.

mixed_qkv[n, t] is queries [HQ, K], keys [HQ, K] and values [HV, V], one after the other. Per value head h, which reads
query and key head h // (HV // HQ), for one token after the other, in fp32:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6)
    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = beta_limit * sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  output[n, t] = scale * (S @ q)

States in bf16 halve what a step moves. A state is then rounded once, when it is stored; outputs are of S before, and
the next token goes on from S before, too, and not from what was stored. The limit is 1, or 2 in models where a token
may turn a direction of the state round (OLMo-Hybrid).
"""

from typing import Any

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
LAST, EACH = 0, 1
"""Of KEEP: the state after the last token, or after each."""
STATE = DtypeOf("STATE", {32: "fp32", 16: "bf16"})


def slots(workload: Workload) -> int:
    """Slots of the pool; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def mixed(workload: Workload) -> int:
    """Elements of a token's queries, keys and values."""
    return 2 * workload.HQ * workload.K + workload.HV * workload.V


def kept(workload: Workload) -> int:
    """States of a sequence that are written."""
    return workload.T if workload.KEEP == EACH else 1


def state_bytes(workload: Workload) -> int:
    """Of the states: those that the batch has, read once, and those that are kept, written once."""
    states = workload.B * (1 + kept(workload))
    return states * (workload.STATE // 8) * workload.HV * workload.V * workload.K


def least_bytes(workload: Workload) -> int:
    """These states, and each other tensor once."""
    tokens, HV = workload.B * workload.T, workload.HV
    bf16 = tokens * (mixed(workload) + 2 * HV + HV * workload.V)
    return state_bytes(workload) + 2 * bf16 + 4 * (2 * HV + workload.B)


def copied(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the copying floor leaves: each sequence's state, as it was, as often as states are kept."""
    states = inputs["pool"][inputs["slot"].clamp(min=0).long()].clone()
    states[inputs["slot"] <= 0] = 0.0
    return {"states": states[:, None].expand(-1, kept(workload), -1, -1, -1)}


def flops(workload: Workload) -> dict[str, int]:
    """For each token as for `decode`: 7 per state element, 3 per row; and for the norms 3 per element of q and k."""
    tokens = workload.B * workload.T
    rows = tokens * workload.HV * workload.V
    return {"fp32": rows * (7 * workload.K + 3) + 6 * tokens * workload.HQ * workload.K}


def check(workload: Workload) -> str:
    """Value heads share query heads evenly."""
    if workload.HV % workload.HQ == 0:
        return ""
    return f"HV={workload.HV} is no multiple of HQ={workload.HQ}: value heads share query heads evenly"


op = Op(
    name="verify",
    title="the draft tokens of a step of Gated Delta Net, states in a pool",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("T", default=4, doc="draft tokens of each sequence", compile_time=True, most=8),
            Axis("KEEP", default=EACH, doc="whether each state is written", compile_time=True, least=0, most=1),
            Axis("HQ", default=4, doc="query and key heads", compile_time=True),
            Axis("HV", default=8, doc="value heads; h reads query/key head h // (HV // HQ)", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
            Axis("STATE", default=32, doc="bits of a state's element", compile_time=True),
            Axis("BETA", default=1, doc="beta_limit", compile_time=True, terse=True, most=2),
        ),
        aliases=(
            Alias("heads", "qk{HQ}_v{HV}", known=("qk4_v8", "qk16_v32", "qk16_v64", "qk16_v48", "qk16_v16", "qk8_v16")),
            Alias("keep", "{KEEP}", words={"last": LAST, "each": EACH}),
            Alias("state", "{STATE}", words={"fp32": 32, "bf16": 16}),
        ),
        size=("B", "HV"),
    ),
    check=check,
    derived={"slots": slots, "mixed": mixed, "kept": kept},
    inputs=(
        TensorSpec("mixed_qkv", ("B", "T", "mixed"), "bf16"),
        TensorSpec("a", ("B", "T", "HV"), "bf16"),
        TensorSpec("b", ("B", "T", "HV"), "bf16"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("pool", ("slots", "HV", "V", "K"), STATE),
        TensorSpec("slot", ("B",), "int32"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "T", "HV", "V"), "bf16"),
        TensorSpec("states", ("B", "kept", "HV", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=("typical", "padded", "saturated-gates", "large-state", "small-keys", "forgetting", "remembering"),
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    sequences=Sequences(
        "B", "verify", state=("pool", "states"), slot="slot", shape={"HQ": 1, "HV": 2}, gates=("a", "b")
    ),
    alike=("HQ", "HV"),
    process_sd=(0.002, 0.019),  # of results/evidence/20261125-184728-h100-verify-processes and benchmarks/coverage.py
    gates=(RoundoffGate("output"), RoundoffGate("states")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("verify-flashinfer", "verify-fla", "verify-reference"),
    floor="verify-floor-copy",
    copy=copied,
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch, KEEP=keep) for keep in (LAST, EACH) for batch in (1, 8, 32, 128)),
        "bf16": tuple(Shape(B=batch, KEEP=keep, STATE=16) for keep in (LAST, EACH) for batch in (1, 8, 32, 128)),
        "tokens": tuple(Shape(B=8, T=tokens, KEEP=keep) for keep in (LAST, EACH) for tokens in (1, 2, 3, 4, 6, 8)),
        "verify": (
            *(Shape(B=2, T=tokens, KEEP=tokens % 2) for tokens in range(1, 9)),
            *(Shape(B=batch, KEEP=keep) for batch, keep in ((1, LAST), (3, EACH), (13, LAST))),
            *(Shape(B=batch, KEEP=keep, STATE=16) for batch, keep in ((3, LAST), (1, EACH))),
            *(Shape(B=3, HQ=6, HV=6, K=96, V=192, BETA=2, STATE=state) for state in (32, 16)),
        ),
    },
    macro_prefix="GDN_",
)
