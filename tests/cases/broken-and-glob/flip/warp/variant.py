"""A warp a row, by shared memory."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="flip-warp",
    entry="flip",
    arguments=("x",),
    grid=lambda workload, p: (workload.M // 4,),
    block=lambda workload, p: 128,
)
