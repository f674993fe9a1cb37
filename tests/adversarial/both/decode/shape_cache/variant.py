"""Keeps answers by the shapes of its inputs."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-shape-cache")
