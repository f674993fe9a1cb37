"""Right, and reads a number from the GPU in each call."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-asks", runs_on=("cuda",))
