"""Honest: allocates its outputs at each launch."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-honest-own")
