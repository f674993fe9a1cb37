"""Honest for 60 calls, then updates its input state in place."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-late-update")
