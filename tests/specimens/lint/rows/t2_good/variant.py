"""As lint-t2-bad, without its mistake."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="lint-t2-good",
    entry="rows",
    params={"BK": Param(default=32, choices=(16, 32), doc="columns at a time")},
    grid=lambda workload, p: (-(-workload.M // 16),),
)
