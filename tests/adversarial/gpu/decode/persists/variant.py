"""Right, and sets a part of the L2 aside: for lines that persist, or by a window on the stream it was given."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-persists",
    runs_on=("cuda",),
    params={
        "BY": Param(default="limit", choices=("limit", "window"), doc="what it sets"),
        "TIMED": Param(default=0, choices=(0, 1), doc="whether only in the process that times it"),
    },
)
