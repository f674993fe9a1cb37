"""Flash Linear Attention's fused recurrent kernel behind a gather: its function knows no pool, and keeps one state."""

from gdnbench import Requirement, TorchKernel, Workload


def check(workload: Workload) -> str:
    """Its function gives the state after the last token alone."""
    return "FLA's function gives the last state alone, and not each" if workload.KEEP else ""


kernel = TorchKernel(
    name="verify-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    check=check,
)
