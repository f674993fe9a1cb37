"""Kimi Delta Attention over the draft tokens of a step, as speculative decoding verifies them; states in a pool.

Sequence n has its state [H, V, K] in slot[n] of the pool, which is only read: which of its T tokens are accepted is
known later, so the states are written elsewhere, after each token (keep=each) or after the last one (keep=last), or not
at all (keep=none), where a later launch goes over the accepted tokens again. A slot of 0 or less is no sequence, but
padding of the batch: its outputs and its states are zero.

The mathematics of a token are those of `kda-decode`, one token after the other, in fp32:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6);  x = g + dt_bias        beta = beta_limit * sigmoid(b)
    gate=softplus:  decay = exp(-exp(A_log) * softplus(x))                     a number for each of K channels
    gate=bounded:   decay = exp(lower_bound * sigmoid(exp(A_log) * x))         at least exp(-5); a scale, not a clamp
    S = S * decay[None, :];  r = S @ k;  S = S + beta * (v - r) k^T;  output[n, t] = scale * (S @ q)

A state in bf16 is rounded once, when it is stored; outputs are of S before, and the next token goes on from S before.
"""

from typing import Any

from gdnbench import Alias, Axis, DtypeOf, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import CHANNEL_PROFILES

FEWEST_SLOTS = 64
SLOTS_PER_SEQUENCE = 4
"""A server keeps the states of many more sequences than are in a step's batch."""
LAST, EACH, NONE = 0, 1, 2
"""Of KEEP: the state after the last token, after each, or none."""
SOFTPLUS, BOUNDED = 0, 1
"""Of GATE: the form of the decay."""
STATE = DtypeOf("STATE", {32: "fp32", 16: "bf16"})


def slots(workload: Workload) -> int:
    """Slots of the pool; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def mixed(workload: Workload) -> int:
    """Elements of a token's queries, keys and values."""
    return workload.H * (2 * workload.K + workload.V)


def kept(workload: Workload) -> int:
    """States of a sequence that are written."""
    return {LAST: 1, EACH: workload.T, NONE: 0}[workload.KEEP]


def state_bytes(workload: Workload) -> int:
    """Of the states: those that the batch has, read once, and those that are kept, written once."""
    states = workload.B * (1 + kept(workload))
    return states * (workload.STATE // 8) * workload.H * workload.V * workload.K


def least_bytes(workload: Workload) -> int:
    """These states, and each other tensor once."""
    tokens, H, K, V = workload.B * workload.T, workload.H, workload.K, workload.V
    bf16 = tokens * (mixed(workload) + H * K + H + H * V)
    return state_bytes(workload) + 2 * bf16 + 4 * (H + H * K + workload.B)


def copied(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the copying floor leaves: each sequence's state, as it was, as often as states are kept."""
    states = inputs["pool"][inputs["slot"].clamp(min=0).long()].clone()
    states[inputs["slot"] <= 0] = 0.0
    return {"states": states[:, None].expand(-1, kept(workload), -1, -1, -1)}


def flops(workload: Workload) -> dict[str, int]:
    """For each token as for `kda-decode`: 7 per state element, 3 per row, 12 per channel."""
    tokens = workload.B * workload.T * workload.H
    return {"fp32": tokens * (workload.V * (7 * workload.K + 3) + 12 * workload.K)}


BATCHES = (1, 8, 32, 128)

op = Op(
    name="kda-verify",
    title="the draft tokens of a step of Kimi Delta Attention, states in a pool",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("T", default=4, doc="draft tokens of each sequence", compile_time=True, most=8),
            Axis("KEEP", default=EACH, doc="which states are written", compile_time=True, least=0, most=2),
            Axis("H", default=32, doc="heads, of queries and keys as of values", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
            Axis("STATE", default=32, doc="bits of a state's element", compile_time=True),
            Axis("GATE", default=BOUNDED, doc="form of the decay", compile_time=True, least=0, most=1),
            Axis("BETA", default=1, doc="beta_limit", compile_time=True, terse=True, most=2),
        ),
        aliases=(
            Alias("heads", "h{H}", known=("h4", "h8", "h12", "h16", "h24", "h32", "h48", "h64", "h96")),
            Alias("keep", "{KEEP}", words={"last": LAST, "each": EACH, "none": NONE}),
            Alias("state", "{STATE}", words={"fp32": 32, "bf16": 16}),
            Alias("gate", "{GATE}", words={"softplus": SOFTPLUS, "bounded": BOUNDED}),
        ),
        size=("B", "H"),
    ),
    derived={"slots": slots, "mixed": mixed, "kept": kept},
    inputs=(
        TensorSpec("mixed_qkv", ("B", "T", "mixed"), "bf16"),
        TensorSpec("g", ("B", "T", "H", "K"), "bf16"),
        TensorSpec("b", ("B", "T", "H"), "bf16"),
        TensorSpec("A_log", ("H",), "fp32"),
        TensorSpec("dt_bias", ("H", "K"), "fp32"),
        TensorSpec("pool", ("slots", "H", "V", "K"), STATE),
        TensorSpec("slot", ("B",), "int32"),
    ),
    scalars=("scale", "lower_bound", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "T", "H", "V"), "bf16"),
        TensorSpec("states", ("B", "kept", "H", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=("typical", "padded", "saturated-gates", "large-state", "small-keys", "alike-keys"),
    profiles=CHANNEL_PROFILES,
    drawn_together=(("A_log", "dt_bias", "g"),),
    alike=("H",),
    sequences=Sequences("B", "verify", state=("pool", "states"), slot="slot", shape={"H": 2}, gates=("g", "b")),
    gates=(RoundoffGate("output"), RoundoffGate("states")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("kda-verify-fla-pool", "kda-verify-fla", "kda-verify-reference"),
    floor="kda-verify-floor-copy",
    copy=copied,
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch, KEEP=keep) for keep in (LAST, EACH, NONE) for batch in BATCHES),
        "bf16": tuple(Shape(B=batch, KEEP=keep, STATE=16) for keep in (LAST, EACH, NONE) for batch in BATCHES),
        "tokens": tuple(
            Shape(B=8, T=tokens, KEEP=keep) for keep in (LAST, EACH, NONE) for tokens in (1, 2, 3, 4, 6, 8)
        ),
        "verify": (
            *(Shape(B=2, T=tokens, KEEP=tokens % 3, H=4, GATE=tokens % 2) for tokens in range(1, 9)),
            *(Shape(B=3, KEEP=keep, H=4, STATE=16, GATE=gate) for keep, gate in ((LAST, 0), (EACH, 1), (NONE, 0))),
            *(Shape(B=3, H=6, K=64, V=96, BETA=2, STATE=state) for state in (32, 16)),
        ),
    },
    macro_prefix="GDN_",
)
