"""A source without the kernel that the declaration names."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-no-such-entry",
    entry="missing",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
