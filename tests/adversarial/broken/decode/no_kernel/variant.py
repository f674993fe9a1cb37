"""A declaration that declares nothing: the name is misspelt."""

from gdnbench import TorchKernel

kernal = TorchKernel(name="test-no-kernel")
