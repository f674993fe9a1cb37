"""FlashInfer's kernels for several tokens on its pool; a launch names slots as they do, and one clears padding."""

from gdnbench import Requirement, TorchKernel, Workload

LEAST = 128  # of the size of a head
BF16 = 16  # bits of a state's element


def check(workload: Workload) -> str:
    """Its function is for T > 1 and large heads, and leaves the pool as it is only where it writes each state."""
    if not workload.KEEP:
        return "FlashInfer's function writes the last state alone to the pool, and here that is only read"
    if workload.T == 1:
        return "FlashInfer's function is for several tokens, not for T=1"
    if workload.BETA != 1:
        return "FlashInfer's beta has the limit 1"
    if workload.STATE == BF16 and (workload.K, workload.V) != (LEAST, LEAST):
        return f"FlashInfer's function for states in bf16 takes heads of {LEAST} elements"
    small = min(workload.K, workload.V) < LEAST
    return f"FlashInfer's function takes heads of {LEAST} elements or more" if small else ""


kernel = TorchKernel(
    name="verify-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    check=check,
)
