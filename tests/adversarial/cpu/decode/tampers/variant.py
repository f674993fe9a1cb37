"""Writes nothing right, and replaces a function that would tell; or is honest, and slows the clock when it is timed."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-tampers",
    params={
        "HOW": Param(
            default="gates", choices=("gates", "code", "torch", "clock", "channel"), doc="what it replaces, and when"
        )
    },
)
