"""The reference through torch.compile: what one gets without writing a kernel."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="kda-decode-compiled", in_place={"new_pool": "pool"})
