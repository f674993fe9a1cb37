"""A gather and a scatter."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="pool-copy-torch", in_place={"new_pool": "pool"})
