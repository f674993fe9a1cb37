"""A decode step that writes what a token adds to the state, and the state itself once in several steps.

The state [HV, V, K] of sequence n stands in slot[n] of the pool as it was P = hist_len[n] tokens ago. What has been
added since stands in rings of the same slot: for token j < P the normalised key k_j [HQ, K], u_j [HV, V], and G_j [HV],
the sum of log g from the first of them on. So the state is, with G the last of these or 0,

    S = exp(G) S + sum over j < P of exp(G - G_j) u_j k_j^T

and from there on the step is that of `decode-pool`: g, beta, q and k as there, S = g * S, u = beta * (v - S @ k),
S = S + u k^T, output = scale * (S @ q), in fp32. Then, if P < FLUSH, the token's k, u and G + log g go to place P of
the rings, and the caller counts P + 1; else the state, which holds this token, too, is written, no ring is, and the
caller counts from 0.

hist_len is 0 to FLUSH. A slot of 0 or less is no sequence, but padding of the batch: its output is zero, and nothing is
written, whatever its hist_len is. Slots of others, and other places of the rings, stay as they are, bit by bit.
"""

from gdnbench import Alias, Axis, DtypeOf, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import DECODE_PROFILES

FEWEST_SLOTS = 64
SLOTS_PER_SEQUENCE = 4
"""A server keeps the states of many more sequences than are in a step's batch."""
RING = 16
"""Tokens that a slot's rings have places for."""
STATE = DtypeOf("STATE", {32: "fp32", 16: "bf16"})


def slots(workload: Workload) -> int:
    """Slots of the pool; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def mixed(workload: Workload) -> int:
    """Elements of a token's queries, keys and values."""
    return 2 * workload.HQ * workload.K + workload.HV * workload.V


def least_bytes(workload: Workload) -> int:
    """Of the states, one of each sequence read; states that are flushed, and rings, as often as they are on average.

    hist_len goes from 0 to FLUSH and begins again, so that of FLUSH + 1 steps one writes the state and each other one
    an entry, and half a full ring is read. Each other tensor counts once.
    """
    B, HQ, HV, K, V, flush = (getattr(workload, each) for each in ("B", "HQ", "HV", "K", "V", "FLUSH"))
    state, entry = HV * V * K * workload.STATE // 8, 2 * (HQ * K + HV * V) + 4 * HV
    moved = state + (state + flush * entry) / (flush + 1) + flush / 2 * entry
    return round(B * moved) + 2 * B * (mixed(workload) + 2 * HV + HV * V) + 4 * (2 * HV + 2 * B)


def flops(workload: Workload) -> dict[str, int]:
    """As for `decode-pool`, and per state element 2 for each entry of the ring, of which half are there on average."""
    rows = workload.B * workload.HV * workload.V
    return {"fp32": rows * ((7 + workload.FLUSH) * workload.K + 3) + 6 * workload.B * workload.HQ * workload.K}


def check(workload: Workload) -> str:
    """Value heads share query heads evenly."""
    if workload.HV % workload.HQ == 0:
        return ""
    return f"HV={workload.HV} is no multiple of HQ={workload.HQ}: value heads share query heads evenly"


BATCHES = (1, 8, 32, 128)

op = Op(
    name="decode-ucache",
    title="one decode step of Gated Delta Net that writes what is added, and the state at a flush",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("HQ", default=4, doc="query and key heads", compile_time=True),
            Axis("HV", default=8, doc="value heads; h reads query/key head h // (HV // HQ)", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
            Axis("STATE", default=32, doc="bits of a state's element", compile_time=True),
            Axis(
                "FLUSH", default=RING, doc="tokens in the ring when the state is written", compile_time=True, most=RING
            ),
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
        TensorSpec("k_cache", ("slots", "HQ", RING, "K"), "bf16"),
        TensorSpec("u_cache", ("slots", "HV", RING, "V"), "bf16"),
        TensorSpec("g_cache", ("slots", "HV", RING), "fp32"),
        TensorSpec("slot", ("B",), "int32"),
        TensorSpec("hist_len", ("B",), "int32"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "HV", "V"), "bf16"),
        TensorSpec("new_pool", ("slots", "HV", "V", "K"), STATE),
        TensorSpec("new_k_cache", ("slots", "HQ", RING, "K"), "bf16"),
        TensorSpec("new_u_cache", ("slots", "HV", RING, "V"), "bf16"),
        TensorSpec("new_g_cache", ("slots", "HV", RING), "fp32"),
    ),
    numerics="numerics.py",
    scenarios=(
        "typical",
        "padded",
        "empty",
        "flush",
        "saturated-gates",
        "large-state",
        "small-keys",
        "forgetting",
    ),
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    sequences=Sequences(
        "B",
        "decode",
        state=("pool", "new_pool"),
        slot="slot",
        rings={f"{name}_cache": f"new_{name}_cache" for name in "kug"},
        filled="hist_len",
        flush="FLUSH",
        shape={"HQ": 1, "HV": 2, "FLUSH": 3},
    ),
    alike=("HQ", "HV"),
    gates=tuple(map(RoundoffGate, ("output", "new_pool", "new_k_cache", "new_u_cache", "new_g_cache"))),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("decode-ucache-reference",),
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "bf16": tuple(Shape(B=batch, STATE=16) for batch in BATCHES),
        "verify": (
            *(Shape(B=batch) for batch in (1, 3, 13, 64)),
            *(Shape(B=5, FLUSH=flush) for flush in (1, 7)),
            *(Shape(B=batch, STATE=16) for batch in (1, 13)),
            *(Shape(B=3, HQ=6, HV=6, K=96, V=192, BETA=2, STATE=state) for state in (32, 16)),
        ),
    },
    macro_prefix="GDN_",
)
