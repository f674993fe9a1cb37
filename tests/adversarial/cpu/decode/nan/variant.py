"""One element of the new state is a computed NaN."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-nan")
