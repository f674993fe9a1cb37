"""The decay anew for each element of the state, and its exponential as a long product."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-arithmetic",
    entry="arithmetic",
    grid=lambda shape, p: (shape.V // 8, shape.B * shape.HV),
    block=lambda shape, p: 256,
)
