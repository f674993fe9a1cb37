"""Wrong, and writes a verdict to each descriptor there is; or is honest until it is timed, and writes a time."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-forges",
    params={"HOW": Param(default="examined", choices=("examined", "sampled", "junk"), doc="what it writes, and when")},
)
