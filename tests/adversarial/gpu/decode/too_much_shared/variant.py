"""CUDA that asks for more shared memory than a block can have."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-too-much-shared",
    entry="greedy",
    grid=lambda shape, p: (1,),
    block=lambda shape, p: 32,
    shared_bytes=lambda shape, p: 1 << 20,
)
