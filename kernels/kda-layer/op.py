"""A decode step of a whole Kimi Delta Attention layer between its projections, in the contract of servers' one launch.

x[n] is what the input projection leaves of token n: queries, keys and values [3, H, K], one after the other. Sequence
n has the last three inputs of each of these channels in slot[n] of conv_pool, the oldest first, and its state [H, V,
K] in slot[n] of pool, where both are updated; the other slots stay as they are. A slot of 0 or less is no sequence,
but padding of the batch: its output is zero, and nothing of the pools is touched. With w[i] the weights [4, H K] of
queries, keys or values, per channel:

    y = silu(w[0] c[0] + w[1] c[1] + w[2] c[2] + w[3] x);  c = (c[1], c[2], x);  q, k, v = split(y)

Then per head h, with raw = g + dt_bias:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6);  beta = sigmoid(b)
    gate=softplus:  decay = exp(-exp(A_log) * softplus(raw))                   a number for each of K channels
    gate=bounded:   decay = exp(lower_bound * sigmoid(exp(A_log) * raw))       at least exp(-5); a scale, not a clamp
    S = S * decay[None, :];  r = S @ k;  S = S + beta * (v - r) k^T;  o = scale * (S @ q)
    y = o / sqrt(mean(o^2) + 1e-5) * weight * sigmoid(z)

All of it is fp32. What a model hands from one launch to the next may be rounded to bf16: q, k and v behind the
convolution, and o. The gates allow each of these roundings, and none of them is asked for; the decays, beta and the
state are not rounded, but for that a pool in bf16 rounds S once, when it is stored.
"""

from gdnbench import (
    Alias,
    Axis,
    DtypeOf,
    ExactGate,
    Op,
    RoundoffGate,
    Sequences,
    Shape,
    TensorSpec,
    Workload,
    WorkloadSpec,
)
from gdnbench.decays import CHANNEL_PROFILES

FEWEST_SLOTS = 64
SLOTS_PER_SEQUENCE = 4
"""A server keeps the states of many more sequences than are in a step's batch."""
TAPS = 4
SOFTPLUS, BOUNDED = 0, 1
"""Of GATE: the form of the decay."""
STATE = DtypeOf("STATE", {32: "fp32", 16: "bf16"})


def slots(workload: Workload) -> int:
    """Slots of the pools; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def channels(workload: Workload) -> int:
    """Of a token's queries; keys and values have as many."""
    return workload.H * workload.K


def mixed(workload: Workload) -> int:
    """Channels: elements of a token's queries, keys and values."""
    return 3 * channels(workload)


def state_bytes(workload: Workload) -> int:
    """Of the states and last inputs that are updated, read once and written once."""
    states = workload.STATE // 8 * workload.H * workload.V * workload.K
    return 2 * workload.B * (states + 2 * (TAPS - 1) * mixed(workload))


def least_bytes(workload: Workload) -> int:
    """These, and each other tensor once."""
    B, H, K, V = workload.B, workload.H, workload.K, workload.V
    bf16 = B * (mixed(workload) + H * K + H + 2 * H * V)
    return state_bytes(workload) + 2 * bf16 + 4 * (TAPS * mixed(workload) + H + H * K + V + B)


def flops(workload: Workload) -> dict[str, int]:
    """7 per state element and 9 a row; per channel the convolution, and of keys the norms, 6, and the gate, 6."""
    rows = workload.B * workload.H * workload.V
    around = workload.B * (2 * TAPS * mixed(workload) + 12 * workload.H * workload.K)
    return {"fp32": rows * (7 * workload.K + 9) + around}


def check(workload: Workload) -> str:
    """The weights lie as [3, 4, H K], so that heads of values are as large as those of keys."""
    if workload.V == workload.K:
        return ""
    return f"V={workload.V} is not K={workload.K}: the convolution's weights have as many channels of values as of keys"


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
"""Heads of the models in use, as in kda-decode."""

op = Op(
    name="kda-layer",
    title="one decode step of a Kimi Delta Attention layer between its projections",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("H", default=32, doc="heads, of queries and keys as of values", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head, which is K", compile_time=True, terse=True),
            Axis("STATE", default=32, doc="bits of a state's element", compile_time=True),
            Axis("GATE", default=BOUNDED, doc="form of the decay", compile_time=True, least=0, most=1),
        ),
        aliases=(
            Alias("heads", "h{H}", known=("h4", "h8", "h12", "h16", "h24", "h32", "h48", "h64", "h96")),
            Alias("state", "{STATE}", words={"fp32": 32, "bf16": 16}),
            Alias("gate", "{GATE}", words={"softplus": SOFTPLUS, "bounded": BOUNDED}),
        ),
        size=("B", "H"),
    ),
    check=check,
    derived={"slots": slots, "channels": channels, "mixed": mixed},
    inputs=(
        TensorSpec("x", ("B", "mixed"), "bf16"),
        TensorSpec("conv_weight", (3, TAPS, "channels"), "fp32"),
        TensorSpec("conv_pool", ("slots", TAPS - 1, "mixed"), "bf16"),
        TensorSpec("slot", ("B",), "int32"),
        TensorSpec("g", ("B", "H", "K"), "bf16"),
        TensorSpec("b", ("B", "H"), "bf16"),
        TensorSpec("A_log", ("H",), "fp32"),
        TensorSpec("dt_bias", ("H", "K"), "fp32"),
        TensorSpec("pool", ("slots", "H", "V", "K"), STATE),
        TensorSpec("z", ("B", "H", "V"), "bf16"),
        TensorSpec("weight", ("V",), "fp32"),
    ),
    scalars=("scale", "lower_bound"),
    outputs=(
        TensorSpec("y", ("B", "H", "V"), "bf16"),
        TensorSpec("new_conv_pool", ("slots", TAPS - 1, "mixed"), "bf16"),
        TensorSpec("new_pool", ("slots", "H", "V", "K"), STATE),
    ),
    numerics="numerics.py",
    scenarios=("typical", "padded", "saturated-gates", "large-state", "small-inputs", "whole-numbers"),
    profiles=CHANNEL_PROFILES,
    drawn_together=(("A_log", "dt_bias", "g"),),
    alike=("H",),
    sequences=Sequences("B", state=("pool", "new_pool"), slot="slot"),
    gates=(RoundoffGate("y"), ExactGate("new_conv_pool"), RoundoffGate("new_pool")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("kda-layer-flashinfer", "kda-layer-fla", "kda-layer-reference"),
    floor="kda-layer-floor-copy",
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
            *(Shape(B=batch, H=8, GATE=gate) for batch in (1, 13) for gate in (BOUNDED, SOFTPLUS)),
            *(Shape(B=3, H=12, STATE=16, GATE=gate) for gate in (BOUNDED, SOFTPLUS)),
            *(Shape(B=3, H=2, K=64, V=64, STATE=state) for state in (32, 16)),
            Shape(B=2),
        ),
    },
    macro_prefix="GDN_",
)
