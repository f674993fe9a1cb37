"""Keeps the state in bf16 inside, half the bytes."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-bf16-state")
