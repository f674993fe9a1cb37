"""The mathematics in torch operations, fp32, in chunks of 64 tokens; states are kept where checkpoints are."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="prefill-checkpoints-reference")
