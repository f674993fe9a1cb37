"""Right, but prints a page at every call, some of it no text."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-talks")
