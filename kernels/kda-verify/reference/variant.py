"""The mathematics in torch operations, one token after the other; states are gathered."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="kda-verify-reference")
