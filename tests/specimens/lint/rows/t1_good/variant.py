"""As lint-t1-bad, without its mistake."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="lint-t1-good",
    entry="rows",
    params={"BM": Param(default=16, choices=(8, 16), doc="rows of a block")},
    grid=lambda workload, p: (-(-workload.M // p.BM),),
)
