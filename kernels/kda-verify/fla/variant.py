"""Flash Linear Attention's recurrent kernel behind a gather: its function knows no pool, and keeps the last state."""

from gdnbench import Requirement, TorchKernel, Workload


def check(workload: Workload) -> str:
    """Its function gives the state after the last token alone, where it is asked for."""
    return "FLA's function gives the last state alone" if workload.KEEP else ""


kernel = TorchKernel(
    name="kda-verify-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    check=check,
)
