"""48 lanes."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="lint-t8-bad",
    entry="rows",
    params={"BN": Param(default=64, choices=(48, 64), doc="columns at a time")},
    grid=lambda workload, p: (workload.M,),
)
