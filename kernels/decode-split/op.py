"""A decode step that reads a sequence's state in one slot of the pool and writes it to another.

Sequence n has its state [HV, V, K] in read_slot[n]; after the token it stands in write_slot[n], and read_slot[n] is as
it was: a checkpoint that others may go on from, as several sequences may read the same slot. A slot to write of 0 or
less keeps nothing, the output alone is wanted. A slot to read of 0 or less is no sequence, but padding of the batch:
its output is zero, and nothing is written, whatever its slot to write is. All other slots stay as they are, bit by bit.

Slots to write differ. That one is both, read_slot[n] = write_slot[n], is the step of `decode-pool`. That a sequence
writes what another one reads, write_slot[i] = read_slot[j] for i != j, is forbidden: nothing says which comes first.

The mathematics is that of `decode-pool`, tensors packed and norms inside. Per value head h, in fp32:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6)
    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = beta_limit * sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  output = scale * (S @ q)
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
    """Of the states, one of each sequence read and one written."""
    return 2 * (workload.STATE // 8) * workload.B * workload.HV * workload.V * workload.K


def least_bytes(workload: Workload) -> int:
    """These states, and each other tensor once."""
    B, HV = workload.B, workload.HV
    bf16 = B * (mixed(workload) + 2 * HV + HV * workload.V)
    return state_bytes(workload) + 2 * bf16 + 4 * (2 * HV + 2 * B)


def copied(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the copying floor leaves: each sequence's state, as it was, where the updated one goes."""
    del workload
    pool, read, write = inputs["pool"], inputs["read_slot"].long(), inputs["write_slot"].long()
    written = (read > 0) & (write > 0)
    new_pool = pool.clone()
    new_pool[write[written]] = pool[read[written]]
    return {"new_pool": new_pool}


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

op = Op(
    name="decode-split",
    title="one decode step of Gated Delta Net that reads one slot of a pool and writes another",
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
        TensorSpec("read_slot", ("B",), "int32"),
        TensorSpec("write_slot", ("B",), "int32"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "HV", "V"), "bf16"),
        TensorSpec("new_pool", ("slots", "HV", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=(
        "typical",
        "padded",
        "in-place",
        "unwritten",
        "forked",
        "saturated-gates",
        "large-state",
        "small-keys",
        "forgetting",
    ),
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    sequences=Sequences(
        "B", "decode", state=("pool", "new_pool"), slot="read_slot", to="write_slot", shape={"HQ": 1, "HV": 2}
    ),
    alike=("HQ", "HV"),
    gates=(RoundoffGate("output"), RoundoffGate("new_pool")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("decode-split-flashinfer", "decode-split-fla", "decode-split-reference"),
    floor="decode-split-floor-copy",
    copy=copied,
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "bf16": tuple(Shape(B=batch, STATE=16) for batch in BATCHES),
        "verify": (
            *(Shape(B=batch) for batch in (1, 3, 13, 64)),
            *(Shape(B=batch, STATE=16) for batch in (1, 13)),
            *(Shape(B=3, HQ=6, HV=6, K=96, V=192, BETA=2, STATE=state) for state in (32, 16)),
        ),
    },
    macro_prefix="GDN_",
)
