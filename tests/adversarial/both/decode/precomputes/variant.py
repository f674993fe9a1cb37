"""Computes e^A_log when it is bound, as if an input never changed."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-precomputes")
