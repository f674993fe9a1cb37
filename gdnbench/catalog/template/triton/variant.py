"""A row a program, in tiles of columns, read twice."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="example-triton",
    entry="normalise_rows",
    params={"BLOCK": Param(default=256, choices=(128, 256, 1024), doc="columns of a tile")},
    grid=lambda workload, p: (workload.M,),
    warps=lambda workload, p: 4,
)
