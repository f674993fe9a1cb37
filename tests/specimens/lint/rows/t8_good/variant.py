"""As lint-t8-bad, without its mistake."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="lint-t8-good",
    entry="rows",
    params={"BN": Param(default=64, choices=(32, 64), doc="columns at a time")},
    grid=lambda workload, p: (workload.M,),
)
