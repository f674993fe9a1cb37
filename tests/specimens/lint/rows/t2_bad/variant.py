"""A product over 8 columns at a time."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="lint-t2-bad",
    entry="rows",
    params={"BK": Param(default=32, choices=(8, 16, 32), doc="columns at a time")},
    grid=lambda workload, p: (-(-workload.M // 16),),
)
