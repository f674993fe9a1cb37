"""A thread a row, four bytes a load: the lanes of a warp read 512 bytes apart."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-scattered",
    entry="scattered",
    grid=lambda shape, p: (1, shape.B * shape.HV),
    block=lambda shape, p: shape.V,
)
