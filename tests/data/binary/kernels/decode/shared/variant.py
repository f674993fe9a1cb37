"""256 bytes of static shared memory."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-shared",
    entry="shared",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
