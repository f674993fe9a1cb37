"""Honest for 60 calls, then leaves the work to a thread and returns at once."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-late-thread")
