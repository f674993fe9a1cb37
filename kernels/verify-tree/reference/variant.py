"""The mathematics in torch operations, token after token, vectorised over batch and heads; states are gathered."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="verify-tree-reference")
