"""The mathematics in torch operations; q, k, v and outputs are rounded to bf16 where a model hands them on."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="kda-layer-reference", in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"})
