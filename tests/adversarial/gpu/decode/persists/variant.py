from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-persists",
    runs_on=("cuda",),
    params={
        "BY": Param(default="limit", choices=("limit", "window"), doc="what it sets"),
        "TIMED": Param(default=0, choices=(0, 1), doc="whether only in the process that times it"),
    },
)
