"""The reference through torch.compile: what one gets without writing a kernel."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="kda-layer-compiled", in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"})
