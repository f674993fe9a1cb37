"""Draft tokens of a step, each state kept in a slot of its own: what was not accepted is rolled back by where it reads.

A sequence has T slots of the pool. A step writes the state after token t of sequence n to slots[n, t], and begins with
the state after the last token that was accepted of the step before: pool[slots[n, accepted[n] - 1]], where accepted[n]
is 1 to T. No state is copied for a rollback, and those behind the accepted one are written over.

The slots of all sequences differ. A row of slots of 0 or less is no sequence, but padding of the batch: its outputs
are zero, nothing is written, and its accepted count may be anything. Slots that no sequence has stay as they are, bit
by bit.

The mathematics is that of `verify`: tensors packed, norms inside, and a state in bf16 rounded once where it is stored,
while the next token goes on from S before. Per value head h, for one token after the other, in fp32:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6)
    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = beta_limit * sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  output[n, t] = scale * (S @ q)
"""

from typing import Any

from gdnbench import Alias, Axis, DtypeOf, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import DECODE_PROFILES

SPARE_SLOTS = 64
"""Slots that no sequence of the batch has; the first is no sequence's at all."""
STATE = DtypeOf("STATE", {32: "fp32", 16: "bf16"})


def slots(workload: Workload) -> int:
    """Slots of the pool."""
    return SPARE_SLOTS + workload.B * workload.T


def mixed(workload: Workload) -> int:
    """Elements of a token's queries, keys and values."""
    return 2 * workload.HQ * workload.K + workload.HV * workload.V


def state_bytes(workload: Workload) -> int:
    """Of the states: one of each sequence is read, and one for each token is written."""
    states = workload.B * (1 + workload.T)
    return states * (workload.STATE // 8) * workload.HV * workload.V * workload.K


def least_bytes(workload: Workload) -> int:
    """These states, and each other tensor once."""
    tokens, HV = workload.B * workload.T, workload.HV
    bf16 = tokens * (mixed(workload) + 2 * HV + HV * workload.V)
    return state_bytes(workload) + 2 * bf16 + 4 * (2 * HV + tokens + workload.B)


def copied(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the copying floor leaves: the state that each sequence reads, in all of its slots."""
    del workload
    pool, places, accepted = inputs["pool"].clone(), inputs["slots"], inputs["accepted"]
    for row, count in zip(places.tolist(), accepted.tolist(), strict=True):
        if row[0] > 0:
            pool[row] = inputs["pool"][row[count - 1]]
    return {"new_pool": pool}


def flops(workload: Workload) -> dict[str, int]:
    """As for `verify`: for each token 7 per state element and 3 per row, and for the norms 3 per element of q and k."""
    tokens = workload.B * workload.T
    rows = tokens * workload.HV * workload.V
    return {"fp32": rows * (7 * workload.K + 3) + 6 * tokens * workload.HQ * workload.K}


def check(workload: Workload) -> str:
    """Value heads share query heads evenly."""
    if workload.HV % workload.HQ == 0:
        return ""
    return f"HV={workload.HV} is no multiple of HQ={workload.HQ}: value heads share query heads evenly"


BATCHES = (1, 8, 32, 128)

op = Op(
    name="verify-rollback",
    title="draft tokens of Gated Delta Net, each state in a slot, rolled back to the accepted one",
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
    derived={"slots_of_pool": slots, "mixed": mixed},
    inputs=(
        TensorSpec("mixed_qkv", ("B", "T", "mixed"), "bf16"),
        TensorSpec("a", ("B", "T", "HV"), "bf16"),
        TensorSpec("b", ("B", "T", "HV"), "bf16"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("pool", ("slots_of_pool", "HV", "V", "K"), STATE),
        TensorSpec("slots", ("B", "T"), "int32"),
        TensorSpec("accepted", ("B",), "int32"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "T", "HV", "V"), "bf16"),
        TensorSpec("new_pool", ("slots_of_pool", "HV", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=(
        "typical",
        "padded",
        "one-accepted",
        "all-accepted",
        "saturated-gates",
        "large-state",
        "small-keys",
        "forgetting",
        "remembering",
    ),
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    sequences=Sequences(
        "B", "verify", state=("pool", "new_pool"), slot="slots", accepted="accepted", shape={"HQ": 1, "HV": 2}
    ),
    alike=("HQ", "HV"),
    gates=(RoundoffGate("output"), RoundoffGate("new_pool")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("verify-rollback-flashinfer", "verify-rollback-fla", "verify-rollback-reference"),
    floor="verify-rollback-floor-copy",
    copy=copied,
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "bf16": tuple(Shape(B=batch, STATE=16) for batch in BATCHES),
        "tokens": tuple(Shape(B=8, T=tokens) for tokens in (1, 2, 3, 4, 6, 8)),
        "verify": (
            *(Shape(B=3, T=tokens) for tokens in (1, 2, 3, 5, 8)),
            *(Shape(B=batch) for batch in (1, 13)),
            *(Shape(B=batch, STATE=16) for batch in (1, 7)),
            *(Shape(B=3, HQ=6, HV=6, K=96, V=192, BETA=2, STATE=state) for state in (32, 16)),
        ),
    },
    macro_prefix="GDN_",
)
