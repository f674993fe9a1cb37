"""What a decode step of Gated Delta Net does before its recurrence: convolution, SiLU, norms and gates.

x[n] is what the input projection leaves of token n: queries [HQ, K], keys [HQ, K] and values [HV, V], one after the
other. Each of these channels is convolved with its own last three inputs, which lie in slot[n] of conv_pool, the newest
last, and are shifted by one there; the other slots stay as they are. A slot of 0 or less is no sequence, but padding of
the batch: its outputs are zero, and nothing of the pool is touched. In fp32:

    y = silu(w[0] c[0] + w[1] c[1] + w[2] c[2] + w[3] x);  c = (c[1], c[2], x)
    q, k, v = split(y);  q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6)
    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = beta_limit * sigmoid(b)

beta_limit is 1, or 2 in models where a step may turn a direction of the state round (OLMo-Hybrid).

Qwen3-Next rounds y to bf16, for its convolution is a launch of its own, and norms what it has rounded. The gates allow
that, and a kernel that keeps y in fp32 as well; q, k and v are rounded where they leave. Its convolution adds up in
fp32 and takes SiLU of the sum, which is not rounded in between, and its gates are fp32; so are g and beta here.
"""

from gdnbench import Alias, Axis, ExactGate, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import DECODE_PROFILES

FEWEST_SLOTS = 64
SLOTS_PER_SEQUENCE = 4
"""A server keeps the inputs of many more sequences than are in a step's batch."""
TAPS = 4


def slots(workload: Workload) -> int:
    """Slots of the pool; the first is no sequence's."""
    return max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * workload.B)


def mixed(workload: Workload) -> int:
    """Channels: elements of a token's queries, keys and values."""
    return 2 * workload.HQ * workload.K + workload.HV * workload.V


def least_bytes(workload: Workload) -> int:
    """The batch's slots read and written once, and each other tensor once."""
    B, HV = workload.B, workload.HV
    bf16 = mixed(workload) * (B * (2 + 2 * (TAPS - 1)) + TAPS) + 2 * B * HV
    return 2 * bf16 + 4 * (2 * HV + 2 * B * HV + B)


def flops(workload: Workload) -> dict[str, int]:
    """A multiply-add for each tap of a channel; for norms 3 an element of queries and keys."""
    return {"fp32": workload.B * (2 * TAPS * mixed(workload) + 6 * workload.HQ * workload.K)}


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
    name="prologue",
    title="what a decode step of Gated Delta Net does before its recurrence",
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
    ),
    scalars=("beta_limit",),
    outputs=(
        TensorSpec("q", ("B", "HQ", "K"), "bf16"),
        TensorSpec("k", ("B", "HQ", "K"), "bf16"),
        TensorSpec("v", ("B", "HV", "V"), "bf16"),
        TensorSpec("g", ("B", "HV"), "fp32"),
        TensorSpec("beta", ("B", "HV"), "fp32"),
        TensorSpec("new_conv_pool", ("slots", "mixed", TAPS - 1), "bf16"),
    ),
    numerics="numerics.py",
    scenarios=("typical", "padded", "saturated-gates", "large-inputs", "small-inputs"),
    process_sd=(0.001, 0.03),  # of results/evidence/20261126-*-prologue-processes, two H200s and an H100
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    alike=("HQ", "HV"),
    sequences=Sequences("B", state=("conv_pool", "new_conv_pool"), slot="slot"),
    gates=(
        *(RoundoffGate(name) for name in ("q", "k", "v", "g", "beta")),
        ExactGate("new_conv_pool"),
    ),
    flops=flops,
    least_bytes=least_bytes,
    baselines=("prologue-fla", "prologue-reference"),
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "models": tuple(Shape(name, B=batch, **heads) for name, heads in MODELS.items() for batch in BATCHES),
        "verify": (
            Shape(B=1),
            Shape(B=3, HQ=2, HV=6),
            Shape(B=3, HQ=6, HV=6, K=96, V=192, BETA=2),
            Shape(B=5, HQ=4, HV=4),
            Shape(B=13),
            Shape(B=64),
        ),
    },
    macro_prefix="GDN_",
)
