"""Replays a CUDA graph that was captured on copies of its first inputs."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-stale-graph", runs_on=("cuda",))
