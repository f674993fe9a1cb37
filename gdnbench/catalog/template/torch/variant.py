"""The formula as torch operations in fp32: the baseline."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="example-torch")
