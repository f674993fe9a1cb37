"""More live registers than the launch bounds leave a thread."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-spills",
    entry="spills",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
