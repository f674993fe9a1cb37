"""Rows of a block beyond the last row of the tensor."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="lint-t1-bad",
    entry="rows",
    params={"BM": Param(default=16, choices=(8, 16), doc="rows of a block")},
    grid=lambda workload, p: (-(-workload.M // p.BM),),
)
