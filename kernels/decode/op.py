"""One Gated Delta Net decode step: `gdn_decode_qk4_v8_d128_k_last` of the FlashInfer contest, for any head layout.

Per value head h, with state S of [V, K] and query/key head h // (HV // HQ), in fp32:

    g = exp(-exp(A_log) * softplus(a + dt_bias))        beta = sigmoid(b)
    S = g * S;  r = S @ k;  S = S + beta * (v - r) k^T;  output = scale * (S @ q)
"""

from gdnbench import Alias, Axis, Hint, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec
from gdnbench.decays import DECODE_PROFILES


def flops(workload: Workload) -> dict[str, int]:
    """Per state element: 1 for the decay, 2 for S @ k, 2 for the rank-1 update, 2 for S @ q; per row: 3."""
    rows = workload.B * workload.HV * workload.V
    return {"fp32": rows * (7 * workload.K + 3)}


def check(workload: Workload) -> str:
    """Value heads share query heads evenly."""
    if workload.HV % workload.HQ == 0:
        return ""
    return f"HV={workload.HV} is no multiple of HQ={workload.HQ}: value heads share query heads evenly"


CONTEST = {1: 10, 4: 8, 8: 7, 16: 7, 32: 7, 48: 7, 64: 8}
"""Batch sizes of the contest, and how many of its 54 workloads have each."""

op = Op(
    name="decode",
    title="one decode step of Gated Delta Net",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("HQ", default=4, doc="query and key heads", compile_time=True),
            Axis("HV", default=8, doc="value heads; h reads query/key head h // (HV // HQ)", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
        ),
        aliases=(Alias("heads", "qk{HQ}_v{HV}", known=("qk4_v8", "qk16_v32", "qk8_v16", "qk2_v4")),),
        size=("B", "HV"),
    ),
    check=check,
    inputs=(
        TensorSpec("q", ("B", 1, "HQ", "K"), "bf16"),
        TensorSpec("k", ("B", 1, "HQ", "K"), "bf16"),
        TensorSpec("v", ("B", 1, "HV", "V"), "bf16"),
        TensorSpec("state", ("B", "HV", "V", "K"), "fp32"),
        TensorSpec("A_log", ("HV",), "fp32"),
        TensorSpec("dt_bias", ("HV",), "fp32"),
        TensorSpec("a", ("B", 1, "HV"), "bf16"),
        TensorSpec("b", ("B", 1, "HV"), "bf16"),
    ),
    scalars=("scale",),
    outputs=(
        TensorSpec("output", ("B", 1, "HV", "V"), "bf16"),
        TensorSpec("new_state", ("B", "HV", "V", "K"), "fp32"),
    ),
    numerics="numerics.py",
    scenarios=("typical", "saturated-gates", "large-state", "zero-b"),
    profiles=DECODE_PROFILES,
    drawn_together=(("A_log", "dt_bias", "a"),),
    alike=("HQ", "HV"),
    sequences=Sequences("B", "decode", state=("state", "new_state"), shape={"HQ": 1, "HV": 2}),
    process_sd=(
        0.001,
        0.015,
    ),  # of 17 runs of three processes on H200s and H100s; benchmarks/process_spread.py, coverage.py
    gates=(RoundoffGate("output"), RoundoffGate("new_state")),
    flops=flops,
    baselines=("decode-fla", "decode-reference"),
    floor="decode-floor-copy",
    copy=("state", "new_state"),
    suites={
        "verify": tuple(Shape(B=batch) for batch in (1, 3, 7, 13, 64)),
        "contest": {Shape(B=batch): weight for batch, weight in CONTEST.items()},
    },
    hints=(
        Hint(
            "decode-v7 and decode-v9 ask for all that they read before they use any of it; at B=1 on an H200 a second "
            "trip to memory in a row costs decode-v9 0.26 µs.",
            causes=("latency",),
        ),
        Hint(
            "at B=1 on an H200 the launch is 2.3 of decode-v9's 4.2 µs, and no kernel changes that; a larger batch "
            "shares it among more work.",
            causes=("launch_bound",),
        ),
    ),
    macro_prefix="GDN_",
)
