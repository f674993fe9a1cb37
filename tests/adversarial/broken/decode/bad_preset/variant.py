"""A preset of a param that the kernel does not have."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-bad-preset", presets={"test-bad-preset-b": {"WARPS": 4}})
