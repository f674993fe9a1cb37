"""A tree of draft tokens, as speculative decoding verifies several guesses at once; states in a pool.

Token t of sequence n goes on from the state after its parent, parent[n, t] < t, or from the sequence's own state in
slot[n] of the pool where that is -1, as it is for the first token. So tokens with the same parent do not see each
other, and a tree in which each token's parent is the one before is what `verify` computes. The pool is only read:
which path through the tree is accepted is known later, so the state after each token is written elsewhere. A slot of 0
or less is no sequence, but padding of the batch: its outputs and its states are zero, whatever its parents are.

The mathematics is that of `verify`: tensors packed, norms inside, and a state in bf16 rounded once where it is stored,
while later tokens go on from S before. Per value head h, in fp32, from the state S of a token's parent:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6)
    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = beta_limit * sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  output[n, t] = scale * (S @ q)
"""

from typing import Any

from gdnbench import Alias, Axis, DtypeOf, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
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
    """Of the states: those that the batch has, read once, and one for each token, written once."""
    states = workload.B * (1 + workload.T)
    return states * (workload.STATE // 8) * workload.HV * workload.V * workload.K


def least_bytes(workload: Workload) -> int:
    """These states, and each other tensor once."""
    tokens, HV = workload.B * workload.T, workload.HV
    bf16 = tokens * (mixed(workload) + 2 * HV + HV * workload.V)
    return state_bytes(workload) + 2 * bf16 + 4 * (2 * HV + workload.B + tokens)


def copied(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the copying floor leaves: each sequence's state, as it was, once for each token."""
    states = inputs["pool"][inputs["slot"].clamp(min=0).long()].clone()
    states[inputs["slot"] <= 0] = 0.0
    return {"states": states[:, None].expand(-1, workload.T, -1, -1, -1)}


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
    name="verify-tree",
    title="a tree of draft tokens of Gated Delta Net, states in a pool",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("T", default=4, doc="draft tokens of each sequence", compile_time=True, most=8),
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
        TensorSpec("mixed_qkv", ("B", "T", "mixed"), "bf16"),
        TensorSpec("a", ("B", "T", "HV"), "bf16"),
        TensorSpec("b", ("B", "T", "HV"), "bf16"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("pool", ("slots", "HV", "V", "K"), STATE),
        TensorSpec("slot", ("B",), "int32"),
        TensorSpec("parent", ("B", "T"), "int32"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "T", "HV", "V"), "bf16"),
        TensorSpec("states", ("B", "T", "HV", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=(
        "typical",
        "padded",
        "chain",
        "siblings",
        "saturated-gates",
        "large-state",
        "small-keys",
        "forgetting",
        "remembering",
    ),
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    sequences=Sequences(
        "B",
        "verify",
        state=("pool", "states"),
        slot="slot",
        parent="parent",
        shape={"HQ": 1, "HV": 2},
        gates=("a", "b"),
    ),
    alike=("HQ", "HV"),
    gates=(RoundoffGate("output"), RoundoffGate("states")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("verify-tree-reference",),
    floor="verify-tree-floor-copy",
    copy=copied,
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch) for batch in (1, 8, 32, 128)),
        "bf16": tuple(Shape(B=batch, STATE=16) for batch in (1, 8, 32, 128)),
        "tokens": tuple(Shape(B=8, T=tokens) for tokens in (1, 2, 4, 6, 8)),
        "verify": (
            *(Shape(B=3, T=tokens) for tokens in (1, 2, 5, 8)),
            *(Shape(B=batch) for batch in (1, 7)),
            *(Shape(B=batch, STATE=16) for batch in (1, 3)),
            *(Shape(B=3, HQ=6, HV=6, K=96, V=192, BETA=2, STATE=state) for state in (32, 16)),
        ),
    },
    macro_prefix="GDN_",
)
