"""The chain of Flash Linear Attention's launches: convolution, recurrence, gated RMSNorm, each as its users call it.

Its functions know no pool: inputs and states are gathered and scattered around them.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="layer-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
)
