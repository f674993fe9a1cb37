"""Rounds the factors of its products to TF32, as tensor cores do."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-tf32")
