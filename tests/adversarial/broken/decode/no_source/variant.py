"""A source that is not there."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-no-source", source="missing.py")
