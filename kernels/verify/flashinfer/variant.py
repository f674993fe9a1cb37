"""FlashInfer's kernel for several tokens on its pool; a launch before it names slots as it does, and clears padding."""

from gdnbench import Requirement, TorchKernel, Workload

LEAST = 128  # of the size of a head


def check(workload: Workload) -> str:
    """Its function is for T > 1 and large heads, and leaves the pool as it is only where it writes each state."""
    if not workload.KEEP:
        return "FlashInfer's function writes the last state alone to the pool, and here that is only read"
    if workload.T == 1:
        return "FlashInfer's function is for several tokens, not for T=1"
    small = min(workload.K, workload.V) < LEAST
    return f"FlashInfer's function takes heads of {LEAST} elements or more" if small else ""


kernel = TorchKernel(
    name="verify-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    check=check,
)
