"""Right, and waits for the GPU at the end of each call."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-waits", runs_on=("cuda",))
