"""Gated Delta Net over whole prompts: `gdn_prefill_qk4_v8_d128_k_last` of the FlashInfer contest, for any head layout.

Sequences of different lengths stand one after the other; `cu_seqlens` says where each begins and the last ends. Each
has a state S of [V, K] for every value head h, which reads query/key head h // (HV // HQ). Token after token:

    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  output = scale * (S @ q)
"""

from gdnbench import (
    Alias,
    Axis,
    AxisList,
    Op,
    RoundoffGate,
    Sequences,
    Shape,
    TensorSpec,
    Workload,
    WorkloadSpec,
)
from gdnbench.decays import PROFILES

CHUNK = 64
"""Tokens that chunked kernels take at once; what they keep for each chunk has this many of them."""

KNOWN_HEADS = ("qk4_v8", "qk16_v32", "qk2_v8", "qk4_v16", "qk8_v32", "qk16_v64")


def flops(workload: Workload) -> dict[str, int]:
    """What no way of computing it does without: per state element and token 2 each for S @ k, the update and S @ q.

    Chunked kernels do the same on tensor cores and add products within the chunk: 1.8 times this in chunks of 64.
    """
    return {"bf16": 6 * sum(workload.lengths) * workload.HV * workload.V * workload.K}


def check(workload: Workload) -> str:
    """Value heads share query heads evenly, and there is a token."""
    if workload.HV % workload.HQ:
        return f"HV={workload.HV} is no multiple of HQ={workload.HQ}: value heads share query heads evenly"
    return "" if sum(workload.lengths) else "every sequence is empty"


op = Op(
    name="prefill",
    title="Gated Delta Net over sequences of different lengths",
    workloads=WorkloadSpec(
        axes=(
            Axis("HQ", default=4, doc="query and key heads", compile_time=True),
            Axis("HV", default=8, doc="value heads; h reads query/key head h // (HV // HQ)", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
        ),
        lists=(AxisList("lengths", default=(1024,), doc="tokens of each sequence"),),
        aliases=(Alias("heads", "qk{HQ}_v{HV}", known=KNOWN_HEADS),),
        x="lengths",
        size=("lengths", "HV"),
    ),
    check=check,
    derived={
        "T": lambda workload: sum(workload.lengths),
        "N": lambda workload: len(workload.lengths),
        "ENDS": lambda workload: len(workload.lengths) + 1,
        "CHUNKS": lambda workload: sum(-(-length // CHUNK) for length in workload.lengths),
    },
    inputs=(
        TensorSpec("q", ("T", "HQ", "K"), "bf16"),
        TensorSpec("k", ("T", "HQ", "K"), "bf16"),
        TensorSpec("v", ("T", "HV", "V"), "bf16"),
        TensorSpec("state", ("N", "HV", "V", "K"), "fp32"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("a", ("T", "HV"), "bf16"),
        TensorSpec("b", ("T", "HV"), "bf16"),
        TensorSpec("cu_seqlens", ("ENDS",), "int64"),
    ),
    scalars=("scale",),
    outputs=(TensorSpec("output", ("T", "HV", "V"), "bf16"), TensorSpec("new_state", ("N", "HV", "V", "K"), "fp32")),
    numerics="numerics.py",
    scenarios=("typical", "slow-decay", "saturated-gates", "large-state", "closed-gates"),
    process_sd=(0.03, 0.02),  # of results/evidence/20261126-004353-h100-prefill-profiles and benchmarks/coverage.py
    profiles=PROFILES,
    profile="mixed-heads",
    drawn_together=(("A_log", "dt_bias", "a"),),
    ends={"lengths": "cu_seqlens"},
    sequences=Sequences(
        "N", "prefill", state=("state", "new_state"), shape={"HQ": 1, "HV": 2}, gates=("a", "b"), grid=CHUNK
    ),
    alike=("HQ", "HV"),
    gates=(RoundoffGate("output", arithmetic="bf16"), RoundoffGate("new_state", arithmetic="bf16")),
    flops=flops,
    baselines=("prefill-fla", "prefill-reference"),
    suites={
        "default": (
            Shape(lengths=(1024,)),
            Shape(lengths=(8192,)),
            Shape(lengths=(65536,)),
            Shape(lengths=(1024,) * 8),
        ),
        "verify": (
            Shape(lengths=(1,)),
            Shape(lengths=(64,)),
            Shape(lengths=(65, 0, 130)),
            Shape(lengths=(5, 0, 3), HQ=2, HV=8),
        ),
        "contest": "contest.csv",
        "serving": "serving.csv",
    },
    macro_prefix="GDN_",
)
