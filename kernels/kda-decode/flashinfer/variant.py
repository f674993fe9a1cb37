"""FlashInfer's CuTe DSL kernel on its pool, in bf16 alone; its authors document it for Blackwell."""

from gdnbench import Requirement, TorchKernel, Workload


def check(workload: Workload) -> str:
    """What the upstream function cannot do; empty where it can."""
    if workload.STATE != 16:
        return "FlashInfer's states are in bf16"
    if workload.BETA != 1:
        return "FlashInfer's beta has the limit 1"
    if workload.K != workload.V or workload.K not in {64, 128}:
        return "FlashInfer's heads have 64 or 128 elements, of keys as of values"
    return ""


kernel = TorchKernel(
    name="kda-decode-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    check=check,
    in_place={"new_pool": "pool"},
)
