"""Right, and slow: it gives a test time to interrupt it."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-slow")
