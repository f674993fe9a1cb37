"""FlashInfer's CuTe DSL kernels for several tokens on its pool, in bf16 alone; a launch behind them clears padding."""

from gdnbench import Requirement, TorchKernel, Workload

NONE = 2


def check(workload: Workload) -> str:
    """What the upstream function cannot do; empty where it can."""
    if workload.STATE != 16:
        return "FlashInfer's states are in bf16"
    if workload.BETA != 1:
        return "FlashInfer's beta has the limit 1"
    sizes = {128} if workload.KEEP == NONE else {64, 128}
    if workload.K != workload.V or workload.K not in sizes:
        return f"FlashInfer's heads have {' or '.join(map(str, sorted(sizes)))} elements, of keys as of values"
    return ""


kernel = TorchKernel(
    name="kda-verify-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    check=check,
)
