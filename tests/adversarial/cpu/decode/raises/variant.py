"""Raises an exception whose message looks like Rich markup."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-raises")
