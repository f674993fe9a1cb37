"""Right, but its declaration prints, which must not reach a JSON document."""

from gdnbench import TorchKernel

print("loading with care")

kernel = TorchKernel(name="test-talking-declaration")
