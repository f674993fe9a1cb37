"""FlashInfer's one launch for the whole step, in CuTe DSL; its authors document it for Blackwell."""

from gdnbench import Requirement, TorchKernel, Workload

HEADS = (8, 12, 24, 32, 48, 96)


def check(workload: Workload) -> str:
    """What the upstream function cannot do; empty where it can."""
    if workload.K != 128:
        return "FlashInfer's heads have 128 elements"
    if workload.H not in HEADS:
        return f"FlashInfer's layers have {', '.join(map(str, HEADS))} heads"
    return ""


kernel = TorchKernel(
    name="kda-layer-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    check=check,
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
)
