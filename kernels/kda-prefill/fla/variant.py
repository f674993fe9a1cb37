"""Flash Linear Attention's chunked Triton kernels, as its users call them. The baseline.

FLA tunes each of its kernels once, at the first workload that it sees, and keeps the result on disk.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="kda-prefill-fla", runs_on=("cuda",), requires=(Requirement("fla", extra="fla"),))
