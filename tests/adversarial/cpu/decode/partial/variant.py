"""Writes all but the last value head of the new state."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-partial")
