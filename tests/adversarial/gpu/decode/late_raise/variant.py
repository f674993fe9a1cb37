"""Honest for as many calls as the preflight makes, then it raises."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-late-raise", runs_on=("cuda",))
