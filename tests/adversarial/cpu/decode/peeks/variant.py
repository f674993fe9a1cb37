"""Computes nothing: takes the oracle's outputs from the process; or clears the inputs wherever they are kept."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-peeks",
    params={"AT": Param(default="answers", choices=("answers", "inputs"), doc="what it looks for")},
)
