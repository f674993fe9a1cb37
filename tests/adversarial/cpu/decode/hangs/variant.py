"""Never returns from its second call."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-hangs")
