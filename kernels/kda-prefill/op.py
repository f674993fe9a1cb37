"""Kimi Delta Attention over whole prompts, as engines call it: raw gates, norms inside, sequences of different lengths.

The sequences stand one after the other; `cu_seqlens` says where each begins and the last ends. Each has a state S of
[V, K] for every head, which is given and given back; one without tokens passes its state through. Token after token,
as in `kda-decode`:

    q = q / sqrt(|q|^2 + 1e-6);  k = k / sqrt(|k|^2 + 1e-6);  x = g + dt_bias        beta = sigmoid(b)
    gate=softplus:  decay = exp(-exp(A_log) * softplus(x))                     a number for each of K channels
    gate=bounded:   decay = exp(lower_bound * sigmoid(exp(A_log) * x))         at least exp(-5); a scale, not a clamp
    S = S * decay[None, :];  r = S @ k;  S = S + beta * (v - r) k^T;  output = scale * (S @ q)
"""

from gdnbench import Alias, Axis, AxisList, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import CHANNEL_PROFILES

CHUNK = 64
"""Tokens that chunked kernels take at once; what they keep for each chunk has this many of them."""
SOFTPLUS, BOUNDED = 0, 1
"""Of GATE: the form of the decay."""


def flops(workload: Workload) -> dict[str, int]:
    """What no way of computing it does without: per state element and token 2 each for S @ k, the update and S @ q."""
    return {"bf16": 6 * sum(workload.lengths) * workload.H * workload.V * workload.K}


def check(workload: Workload) -> str:
    """There is a token."""
    return "" if sum(workload.lengths) else "every sequence is empty"


LENGTHS = ((1024,), (8192,), (1024,) * 8)
MODELS = {
    "Kimi-Linear-48B": {"H": 32, "GATE": SOFTPLUS},
    "Kimi-Linear-48B on eight GPUs": {"H": 4, "GATE": SOFTPLUS},
    "Kimi-K3": {"H": 96},
    "Kimi-K3 on two GPUs": {"H": 48},
    "Kimi-K3 on four GPUs": {"H": 24},
    "Kimi-K3 on eight GPUs": {"H": 12},
    "GLM-5.3-Flash": {"H": 64},
    "GLM-5.3-Flash on four GPUs": {"H": 16},
    "GLM-5.3-Flash on eight GPUs": {"H": 8},
}
"""Heads of the models in use; more GPUs share them evenly."""

op = Op(
    name="kda-prefill",
    title="Kimi Delta Attention over sequences of different lengths",
    workloads=WorkloadSpec(
        axes=(
            Axis("H", default=32, doc="heads, of queries and keys as of values", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
            Axis("GATE", default=BOUNDED, doc="form of the decay", compile_time=True, least=0, most=1),
        ),
        lists=(AxisList("lengths", default=(1024,), doc="tokens of each sequence"),),
        aliases=(
            Alias("heads", "h{H}", known=("h4", "h8", "h12", "h16", "h24", "h32", "h48", "h64", "h96")),
            Alias("gate", "{GATE}", words={"softplus": SOFTPLUS, "bounded": BOUNDED}),
        ),
        x="lengths",
        size=("lengths", "H"),
    ),
    check=check,
    derived={
        "T": lambda workload: sum(workload.lengths),
        "N": lambda workload: len(workload.lengths),
        "ENDS": lambda workload: len(workload.lengths) + 1,
        "CHUNKS": lambda workload: sum(-(-length // CHUNK) for length in workload.lengths),
    },
    inputs=(
        TensorSpec("q", ("T", "H", "K"), "bf16"),
        TensorSpec("k", ("T", "H", "K"), "bf16"),
        TensorSpec("v", ("T", "H", "V"), "bf16"),
        TensorSpec("g", ("T", "H", "K"), "bf16"),
        TensorSpec("b", ("T", "H"), "bf16"),
        TensorSpec("A_log", ("H",), "fp32"),
        TensorSpec("dt_bias", ("H", "K"), "fp32"),
        TensorSpec("state", ("N", "H", "V", "K"), "fp32"),
        TensorSpec("cu_seqlens", ("ENDS",), "int64"),
    ),
    scalars=("scale", "lower_bound"),
    outputs=(TensorSpec("output", ("T", "H", "V"), "bf16"), TensorSpec("new_state", ("N", "H", "V", "K"), "fp32")),
    numerics="numerics.py",
    scenarios=("typical", "saturated-gates", "closed-gates", "large-state", "small-keys", "alike-keys"),
    profiles=CHANNEL_PROFILES,
    drawn_together=(("A_log", "dt_bias", "g"),),
    alike=("H",),
    ends={"lengths": "cu_seqlens"},
    sequences=Sequences("N", "prefill", state=("state", "new_state"), shape={"H": 2}, gates=("g", "b"), grid=CHUNK),
    gates=(RoundoffGate("output", arithmetic="bf16"), RoundoffGate("new_state", arithmetic="bf16")),
    flops=flops,
    baselines=("kda-prefill-fla", "kda-prefill-reference"),
    suites={
        "default": tuple(Shape(lengths=lengths) for lengths in LENGTHS),
        "models": tuple(Shape(name, lengths=lengths, **heads) for name, heads in MODELS.items() for lengths in LENGTHS),
        "verify": (
            *(Shape(lengths=(1,), H=2, GATE=gate) for gate in (BOUNDED, SOFTPLUS)),
            *(Shape(lengths=(65, 0, 130), H=2, GATE=gate) for gate in (BOUNDED, SOFTPLUS)),
            Shape(lengths=(5, 64, 3), H=3),
        ),
    },
    macro_prefix="GDN_",
)
