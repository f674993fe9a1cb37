"""The mathematics in torch operations, vectorised over batch and heads; states are gathered and scattered."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="kda-decode-reference", in_place={"new_pool": "pool"})
