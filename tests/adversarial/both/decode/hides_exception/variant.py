"""Swallows the exception of a fast path that fails, and returns zeros."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-hides-exception")
