"""The reference through torch.compile: what one gets without writing a kernel."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="prologue-compiled", in_place={"new_conv_pool": "conv_pool"})
