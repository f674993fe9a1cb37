"""Its implementation lacks the entry."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-no-bind")
