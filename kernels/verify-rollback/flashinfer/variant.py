"""FlashInfer's kernels for several tokens on its pool, each state kept beside it, and a scatter to the slots."""

from gdnbench import Requirement, TorchKernel, Workload

LEAST = 128  # of the size of a head
BF16 = 16  # bits of a state's element


def check(workload: Workload) -> str:
    """Its functions are for T > 1 and large heads."""
    if workload.T == 1:
        return "FlashInfer's function is for several tokens, not for T=1"
    if workload.BETA != 1:
        return "FlashInfer's beta has the limit 1"
    if workload.STATE == BF16 and (workload.K, workload.V) != (LEAST, LEAST):
        return f"FlashInfer's function for states in bf16 takes heads of {LEAST} elements"
    small = min(workload.K, workload.V) < LEAST
    return f"FlashInfer's function takes heads of {LEAST} elements or more" if small else ""


kernel = TorchKernel(
    name="verify-rollback-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    check=check,
    in_place={"new_pool": "pool"},
)
