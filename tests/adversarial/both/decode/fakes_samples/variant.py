"""Writes times or a verdict of its own to where results go."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-fakes-samples",
    params={"HOW": Param(default="samples", choices=("samples", "verdict"), doc="what it writes")},
)
