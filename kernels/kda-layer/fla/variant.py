"""The chain of Flash Linear Attention's launches: convolution, recurrence, gated RMSNorm, each as its users call it.

Its recurrence knows a pool, its convolution does not: last inputs are gathered and scattered around it.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="kda-layer-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
)
