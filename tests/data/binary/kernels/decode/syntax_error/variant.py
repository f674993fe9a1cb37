"""A name that nothing defines, on line 5 of the source."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-syntax-error",
    entry="bad",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
