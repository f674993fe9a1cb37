"""Keeps answers by the addresses of its inputs."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-address-cache")
