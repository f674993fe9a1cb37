"""CUDA that the compiler rejects, on line 5."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-cuda-syntax-error",
    entry="broken",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
