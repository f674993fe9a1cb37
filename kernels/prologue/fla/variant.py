"""Flash Linear Attention's convolution between a gather and a scatter, its norm, and the gates in torch operations."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="prologue-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    in_place={"new_conv_pool": "conv_pool"},
)
