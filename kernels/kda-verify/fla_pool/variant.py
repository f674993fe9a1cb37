"""Flash Linear Attention's recurrent Triton kernel itself, on the pool, as no function of FLA's calls it.

Its functions have the kernel update one pool in place, or make room for one state a sequence, and so read no state
without a gather. The kernel takes two pools, and for each token a slot of the second.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="kda-verify-fla-pool", runs_on=("cuda",), requires=(Requirement("fla", extra="fla"),))
