"""The mathematics in torch operations, fp32, in chunks of 64 tokens: a few launches for each chunk in turn."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="kda-prefill-reference")
