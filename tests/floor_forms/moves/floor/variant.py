"""A copy in three forms; those that MOVES_SLOW names, as in `0,2`, wait before they copy."""

from gdnbench import Param, Shape, TorchKernel

kernel = TorchKernel(
    name="moves-floor",
    params={"FORM": Param(default=0, choices=(0, 1, 2, 3))},
    presets={"moves-floor-two": {"FORM": 2}},
    by_shape={Shape(N=64): {"FORM": 1}, Shape(N=128): {"FORM": 2}},
    floor="copy",
)
