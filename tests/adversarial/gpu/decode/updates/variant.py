"""Honest: updates the new state in place, says so, and leaves the state alone."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-updates", in_place={"new_state": "state"})
