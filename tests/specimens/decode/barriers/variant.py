"""Sums by halving in shared memory, with a barrier of the whole block at each step."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-barriers",
    entry="barriers",
    grid=lambda shape, p: (shape.V // 8, shape.B * shape.HV),
    block=lambda shape, p: 1024,
)
