"""A declaration that is no Python."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-syntax-error"
