"""A decode step of a whole Gated Delta Net layer between its projections: `prologue`, the recurrence and `epilogue`.

x[n] is what the input projection leaves of token n: queries [HQ, K], keys [HQ, K] and values [HV, V], one after the
other. Sequence n has the last three inputs of each of these channels in slot[n] of conv_pool, the newest last, and its
state [HV, V, K] in slot[n] of pool, where both are updated; the other slots stay as they are. A slot of 0 or less is no
sequence, but padding of the batch: its output is zero, and nothing of the pools is touched. Per channel:

    y = silu(w[0] c[0] + w[1] c[1] + w[2] c[2] + w[3] x);  c = (c[1], c[2], x);  q, k, v = split(y)

Then per value head h, which reads query and key head h // (HV // HQ):

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6)
    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = beta_limit * sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  o = scale * (S @ q)
    y = o / sqrt(mean(o^2) + 1e-6) * weight * silu(z)

beta_limit is 1, or 2 in models where a step may turn a direction of the state round (OLMo-Hybrid).

All of it is fp32. What a model hands from one launch to the next may be rounded to bf16: q, k and v behind the
convolution, q and k behind their norms, and o. The gates allow each of these roundings, and none of them is asked for;
g, beta and the state are not rounded.
"""

from gdnbench import Alias, Axis, ExactGate, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import DECODE_PROFILES

FEWEST_SLOTS = 64
SLOTS_PER_SEQUENCE = 4
"""A server keeps the states of many more sequences than are in a step's batch."""
TAPS = 4


def slots(workload: Workload) -> int:
    """Slots of the pools; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def mixed(workload: Workload) -> int:
    """Channels: elements of a token's queries, keys and values."""
    return 2 * workload.HQ * workload.K + workload.HV * workload.V


def state_bytes(workload: Workload) -> int:
    """Of the states and last inputs that are updated, read once and written once."""
    states = 4 * workload.HV * workload.V * workload.K
    return 2 * workload.B * (states + 2 * (TAPS - 1) * mixed(workload))


def least_bytes(workload: Workload) -> int:
    """These, and each other tensor once."""
    B, HV, V = workload.B, workload.HV, workload.V
    bf16 = (B + TAPS) * mixed(workload) + 2 * B * HV + 2 * B * HV * V + V
    return state_bytes(workload) + 2 * bf16 + 4 * (2 * HV + B)


def flops(workload: Workload) -> dict[str, int]:
    """Of the recurrence 7 a state element and 3 a row; and those of `prologue` and `epilogue`."""
    B, rows = workload.B, workload.B * workload.HV * workload.V
    around = B * (2 * TAPS * mixed(workload) + 6 * workload.HQ * workload.K) + 6 * rows
    return {"fp32": rows * (7 * workload.K + 3) + around}


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
    "Qwen3-Next on four GPUs": {"HQ": 4, "HV": 8},
    "OLMo-Hybrid": {"HQ": 30, "HV": 30, "K": 96, "V": 192, "BETA": 2},
}
"""Heads of the models in use. 122B has those of 397B; 35B, 9B and 4B have Qwen3-Next's."""

op = Op(
    name="layer",
    title="one decode step of a Gated Delta Net layer between its projections",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("HQ", default=16, doc="query and key heads", compile_time=True),
            Axis("HV", default=32, doc="value heads; h reads query/key head h // (HV // HQ)", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
            Axis("BETA", default=1, doc="beta_limit", compile_time=True, terse=True, most=2),
        ),
        aliases=(
            Alias("heads", "qk{HQ}_v{HV}", known=("qk16_v32", "qk16_v64", "qk16_v48", "qk16_v16", "qk8_v16", "qk4_v8")),
        ),
        size=("B", "HV"),
    ),
    check=check,
    derived={"slots": slots, "mixed": mixed},
    inputs=(
        TensorSpec("x", ("B", "mixed"), "bf16"),
        TensorSpec("conv_weight", ("mixed", TAPS), "bf16"),
        TensorSpec("conv_pool", ("slots", "mixed", TAPS - 1), "bf16"),
        TensorSpec("slot", ("B",), "int32"),
        TensorSpec("a", ("B", "HV"), "bf16"),
        TensorSpec("b", ("B", "HV"), "bf16"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("pool", ("slots", "HV", "V", "K"), "fp32"),
        TensorSpec("z", ("B", "HV", "V"), "bf16"),
        TensorSpec("weight", ("V",), "bf16"),
    ),
    scalars=("scale", "beta_limit"),
    outputs=(
        TensorSpec("y", ("B", "HV", "V"), "bf16"),
        TensorSpec("new_conv_pool", ("slots", "mixed", TAPS - 1), "bf16"),
        TensorSpec("new_pool", ("slots", "HV", "V", "K"), "fp32"),
    ),
    numerics="numerics.py",
    scenarios=("typical", "padded", "saturated-gates", "large-state", "small-inputs"),
    process_sd=(0.003, 0.02),  # of results/evidence/20261126-003538-h100-layer-processes
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    alike=("HQ", "HV"),
    sequences=Sequences("B", state=("pool", "new_pool"), slot="slot"),
    gates=(RoundoffGate("y"), ExactGate("new_conv_pool"), RoundoffGate("new_pool")),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("layer-flashinfer", "layer-fla", "layer-reference"),
    floor="layer-floor-copy",
    copy=("pool", "new_pool"),
    copied_bytes=state_bytes,
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "models": tuple(Shape(name, B=batch, **heads) for name, heads in MODELS.items() for batch in BATCHES),
        "verify": (
            Shape(B=1),
            Shape(B=3, HQ=2, HV=6),
            Shape(B=3, HQ=6, HV=6, K=96, V=192, BETA=2),
            Shape(B=5, HQ=2, HV=2, K=64, V=64),
            Shape(B=13),
            Shape(B=32, HQ=4, HV=8),
        ),
    },
    macro_prefix="GDN_",
)
