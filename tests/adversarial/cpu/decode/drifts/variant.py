"""Right the first time, wrong on every later launch: a counter that nothing resets."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-drifts")
