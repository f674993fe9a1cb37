"""Honest: writes into the outputs that it is given."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-honest-given")
