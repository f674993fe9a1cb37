"""decode-v1 with twice the rows that its registers hold."""

from gdnbench import CudaKernel

ROWS = 32

kernel = CudaKernel(
    name="test-spilling",
    entry="spilling",
    grid=lambda shape, p: (shape.V // ROWS, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
