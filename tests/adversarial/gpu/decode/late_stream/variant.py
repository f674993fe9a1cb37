"""Honest for 60 calls, then launches on another stream, for which no clock waits."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-late-stream", runs_on=("cuda",))
