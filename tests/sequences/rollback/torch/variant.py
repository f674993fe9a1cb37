"""verify-reference, whose states go to a slot for each token."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="rollback-torch", in_place={"new_pool": "pool"})
