"""The mathematics in torch operations; what the convolution leaves is rounded to bf16, as in Qwen3-Next."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="prologue-reference", in_place={"new_conv_pool": "conv_pool"})
