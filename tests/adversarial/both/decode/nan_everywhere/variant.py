"""Fills its outputs with NaN."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-nan-everywhere")
