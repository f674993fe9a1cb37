"""decode-rungs-triton launched from Python, through `@triton.autotune` or within torch.compile: the host's time."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="decode-launched",
    params={
        "AUTOTUNED": Param(default=0, choices=(0, 1), doc="1: the autotuner looks up the configuration at each call"),
        "COMPILED": Param(default=0, choices=(0, 1), doc="1: the launch is part of a function that torch.compile made"),
    },
    runs_on=("cuda",),
)
