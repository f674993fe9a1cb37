"""Flash Linear Attention's chunked Triton kernels, as its users call them. The baseline.

FLA tunes each of its kernels once, at the first workload that it sees, and keeps the result on disk.
"""

from gdnbench import Param, Requirement, TorchKernel

kernel = TorchKernel(
    name="prefill-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    params={
        "GATES": Param(default="own", choices=("own", "ours"), doc="whose kernels make the gates of a and b"),
    },
)
