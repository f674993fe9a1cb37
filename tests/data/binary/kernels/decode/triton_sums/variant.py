"""Warpgroup products whose sums, of 256 columns, do not fit the registers of four warps; of 64 they do."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="test-triton-sums",
    entry="sums",
    params={"COLUMNS": Param(default=256, choices=(64, 256), doc="of the sums")},
    grid=lambda shape, p: (shape.B,),
    warps=lambda shape, p: 4,
    stages=lambda shape, p: 1,
)
