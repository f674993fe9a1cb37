"""A tile a program."""

from gdnbench import Param, Shape, TritonKernel

kernel = TritonKernel(
    name="gemm-triton",
    entry="tile",
    params={"BM": Param(default=16, choices=(16, 32), doc="rows of a tile")},
    by_shape={Shape(M=128): {"BM": 32}},
    grid=lambda workload, p: (-(-workload.M // p.BM), -(-workload.N // 16)),
)
