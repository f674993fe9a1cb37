"""FlashInfer's recurrence on its pool between Flash Linear Attention's convolution and gated RMSNorm.

FlashInfer has no convolution and no such norm; fla's convolution knows no pool, so that inputs are gathered for it.
"""

from gdnbench import Requirement, TorchKernel, Workload


def check(workload: Workload) -> str:
    """What the upstream function cannot do; empty where it can."""
    if workload.BETA != 1:
        return "FlashInfer's beta has the limit 1"
    if workload.K < 128 or workload.V < 128:
        return "FlashInfer's heads have at least 128 elements"
    return ""


kernel = TorchKernel(
    name="layer-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"), Requirement("flashinfer", extra="flashinfer")),
    check=check,
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
)
