"""The decode step of Kimi Delta Attention as servers call it: a decay for each channel of a key, states in a pool.

Sequence n has its state [H, V, K] in slot[n] of the pool, where it is updated; the other slots stay as they are. A slot
of 0 or less is no sequence, but padding of the batch: its output is zero, and nothing of the pool is touched.

mixed_qkv[n] is queries [H, K], keys [H, K] and values [H, V], one after the other; g is what the gate's projection
gives, raw. Per head h, in fp32:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6);  x = g + dt_bias        beta = beta_limit * sigmoid(b)
    gate=softplus:  decay = exp(-exp(A_log) * softplus(x))                     a number for each of K channels
    gate=bounded:   decay = exp(lower_bound * sigmoid(exp(A_log) * x))         at least exp(-5); a scale, not a clamp
    S = S * decay[None, :];  r = S @ k;  S = S + beta * (v - r) k^T;  output = scale * (S @ q)

Kimi-Linear has the form by softplus, Kimi-K3, GLM-5.3 and Ling-3.0 that with a bound; lower_bound is -5 there, and 0
in the other, which has none. A pool in bf16 halves what a step moves. Each step then rounds S once, when it is stored;
the output is of S before.
"""

from gdnbench import Alias, Axis, DtypeOf, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import CHANNEL_PROFILES

FEWEST_SLOTS = 64
SLOTS_PER_SEQUENCE = 4
"""A server keeps the states of many more sequences than are in a step's batch."""
SOFTPLUS, BOUNDED = 0, 1
"""Of GATE: the form of the decay."""
STATE = DtypeOf("STATE", {32: "fp32", 16: "bf16"})


def slots(workload: Workload) -> int:
    """Slots of the pool; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def mixed(workload: Workload) -> int:
    """Elements of a token's queries, keys and values."""
    return workload.H * (2 * workload.K + workload.V)


def state_bytes(workload: Workload) -> int:
    """Of the states that are updated, read once and written once."""
    return 2 * (workload.STATE // 8) * workload.B * workload.H * workload.V * workload.K


def least_bytes(workload: Workload) -> int:
    """These states, and each other tensor once."""
    B, H, K, V = workload.B, workload.H, workload.K, workload.V
    bf16 = B * (mixed(workload) + H * K + H + H * V)
    return state_bytes(workload) + 2 * bf16 + 4 * (H + H * K + B)


def flops(workload: Workload) -> dict[str, int]:
    """7 per state element and 3 per row; per channel the norms of query and key, 6, and the gate, 6."""
    rows = workload.B * workload.H * workload.V
    return {"fp32": rows * (7 * workload.K + 3) + 12 * workload.B * workload.H * workload.K}


BATCHES = (1, 8, 32, 128)
MODELS = {
    "Kimi-Linear-48B": {"H": 32, "GATE": SOFTPLUS},
    "Kimi-Linear-48B on four GPUs": {"H": 8, "GATE": SOFTPLUS},
    "Kimi-Linear-48B on eight GPUs": {"H": 4, "GATE": SOFTPLUS},
    "Kimi-K3": {"H": 96},
    "Kimi-K3 on two GPUs": {"H": 48},
    "Kimi-K3 on four GPUs": {"H": 24},
    "Kimi-K3 on eight GPUs": {"H": 12},
    "GLM-5.3-Flash": {"H": 64},
    "GLM-5.3-Flash on four GPUs": {"H": 16},
    "Ling-3.0-flash": {"H": 32},
}
"""Heads of the models in use; more GPUs share them evenly, so that these are those of all."""

op = Op(
    name="kda-decode",
    title="one decode step of Kimi Delta Attention, its states in a pool",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("H", default=32, doc="heads, of queries and keys as of values", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
            Axis("STATE", default=32, doc="bits of a state's element", compile_time=True),
            Axis("GATE", default=BOUNDED, doc="form of the decay", compile_time=True, least=0, most=1),
            Axis("BETA", default=1, doc="beta_limit", compile_time=True, terse=True, most=2),
        ),
        aliases=(
            Alias("heads", "h{H}", known=("h4", "h8", "h12", "h16", "h24", "h32", "h48", "h64", "h96")),
            Alias("state", "{STATE}", words={"fp32": 32, "bf16": 16}),
            Alias("gate", "{GATE}", words={"softplus": SOFTPLUS, "bounded": BOUNDED}),
        ),
        size=("B", "H"),
    ),
    derived={"slots": slots, "mixed": mixed},
    inputs=(
        TensorSpec("mixed_qkv", ("B", "mixed"), "bf16"),
        TensorSpec("g", ("B", "H", "K"), "bf16"),
        TensorSpec("b", ("B", "H"), "bf16"),
        TensorSpec("A_log", ("H",), "fp32"),
        TensorSpec("dt_bias", ("H", "K"), "fp32"),
        TensorSpec("pool", ("slots", "H", "V", "K"), STATE),
        TensorSpec("slot", ("B",), "int32"),
    ),
    scalars=("scale", "lower_bound", "beta_limit"),
    outputs=(
        TensorSpec("output", ("B", "H", "V"), "bf16"),
        TensorSpec("new_pool", ("slots", "H", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=("typical", "padded", "saturated-gates", "large-state", "small-keys"),
    profiles=CHANNEL_PROFILES,
    drawn_together=(("A_log", "dt_bias", "g"),),
    alike=("H",),
    sequences=Sequences("B", "decode", state=("pool", "new_pool"), slot="slot", shape={"H": 2}),
    gates=(RoundoffGate("output"), RoundoffGate("new_pool")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("kda-decode-fla", "kda-decode-compiled", "kda-decode-reference"),
    floor="kda-decode-floor-copy",
    copy=("pool", "new_pool"),
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "bf16": tuple(Shape(B=batch, STATE=16) for batch in BATCHES),
        "models": tuple(
            Shape(name, B=batch, STATE=state, **heads)
            for name, heads in MODELS.items()
            for state in (32, 16)
            for batch in BATCHES
        ),
        "verify": (
            *(Shape(B=batch, H=4, GATE=gate) for batch in (1, 13) for gate in (BOUNDED, SOFTPLUS)),
            *(Shape(B=3, H=12, STATE=16, GATE=gate) for gate in (BOUNDED, SOFTPLUS)),
            *(Shape(B=3, H=6, K=64, V=96, BETA=2, STATE=state) for state in (32, 16)),
            Shape(B=2),
        ),
    },
    macro_prefix="GDN_",
)
