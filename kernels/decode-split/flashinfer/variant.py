"""FlashInfer's CuTe DSL kernel on its pool, with its slots to write; launches around it keep slot 0 as it was."""

from gdnbench import Requirement, TorchKernel, Workload


def check(workload: Workload) -> str:
    """What the upstream function cannot do; empty where it can."""
    if workload.BETA != 1:
        return "FlashInfer's beta has the limit 1"
    if workload.K < 128 or workload.V < 128:
        return "FlashInfer's heads have at least 128 elements"
    return ""


kernel = TorchKernel(
    name="decode-split-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    check=check,
    in_place={"new_pool": "pool"},
)
