"""Right, but updates its input state, too."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-changes-state")
