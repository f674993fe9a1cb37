"""CUDA that never ends."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-endless",
    entry="endless",
    grid=lambda shape, p: (1,),
    block=lambda shape, p: 32,
)
