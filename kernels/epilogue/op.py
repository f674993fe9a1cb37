"""What a decode step of Gated Delta Net does after its recurrence: a gated RMSNorm of each value head.

    y = o / sqrt(mean(o^2) + 1e-6) * weight * silu(z)

The mean is over the V elements of a head; the weight is the same for all heads. The norm comes before the gate, as in
Qwen3-Next, whose weights are bf16. Its reference rounds o / sqrt(…) and that times the weight to bf16 on the way; the
kernels of its servers, and those here, keep both in fp32.
"""

from gdnbench import Alias, Axis, Op, RoundoffGate, Sequences, Shape, TensorSpec, Workload, WorkloadSpec


def flops(workload: Workload) -> dict[str, int]:
    """An element's square and its sum, the norm, the weight, the gate and its product: SiLU counts 1."""
    return {"fp32": 6 * workload.B * workload.HV * workload.V}


BATCHES = (1, 8, 32, 128)
MODELS = {
    "Qwen3-Next": {"HQ": 16, "HV": 32},
    "Qwen3.5-397B": {"HQ": 16, "HV": 64},
    "Qwen3.5-27B": {"HQ": 16, "HV": 48},
    "Qwen3.5-2B": {"HQ": 16, "HV": 16},
    "Qwen3-Next on two GPUs": {"HQ": 8, "HV": 16},
    "Qwen3-Next on four GPUs": {"HQ": 4, "HV": 8},
    "OLMo-Hybrid": {"HQ": 30, "HV": 30, "K": 96, "V": 192},
}
"""Heads of the models in use. 122B has those of 397B; 35B, 9B and 4B have Qwen3-Next's."""

op = Op(
    name="epilogue",
    title="what a decode step of Gated Delta Net does after its recurrence",
    workloads=WorkloadSpec(
        axes=(
            Axis("B", default=1, doc="batch size"),
            Axis("HQ", default=16, doc="query and key heads, which do not matter here", compile_time=True),
            Axis("HV", default=32, doc="value heads", compile_time=True),
            Axis("K", default=128, doc="size of a query or key head", compile_time=True, terse=True),
            Axis("V", default=128, doc="size of a value head", compile_time=True, terse=True),
        ),
        aliases=(
            Alias("heads", "qk{HQ}_v{HV}", known=("qk16_v32", "qk16_v64", "qk16_v48", "qk16_v16", "qk8_v16", "qk4_v8")),
        ),
        size=("B", "HV"),
    ),
    inputs=(
        TensorSpec("o", ("B", "HV", "V"), "bf16"),
        TensorSpec("z", ("B", "HV", "V"), "bf16"),
        TensorSpec("weight", ("V",), "bf16"),
    ),
    outputs=(TensorSpec("y", ("B", "HV", "V"), "bf16"),),
    numerics="numerics.py",
    alike=("HV",),
    sequences=Sequences("B"),
    process_sd=(0.03, 0.03),  # FLA's tuner: its ratio to v1 moved by 7 % between two runs (benchmarks/coverage.py)
    scenarios=("typical", "small-outputs", "large-outputs", "saturated-gates"),
    gates=(RoundoffGate("y"),),
    flops=flops,
    baselines=("epilogue-fla", "epilogue-reference"),
    suites={
        "default": tuple(Shape(B=batch) for batch in BATCHES),
        "models": tuple(Shape(name, B=batch, **heads) for name, heads in MODELS.items() for batch in BATCHES),
        "verify": (
            Shape(B=1),
            Shape(B=3, HQ=2, HV=6),
            Shape(B=3, HQ=6, HV=6, K=96, V=192),
            Shape(B=5, HQ=4, HV=4, V=64),
            Shape(B=13),
            Shape(B=64),
        ),
    },
    macro_prefix="GDN_",
)
