"""decode-v4, right, with more dynamic shared memory than a block gets without asking."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-large-shared",
    entry="large",
    grid=lambda shape, p: (shape.V // 8, shape.B * shape.HV),
    block=lambda shape, p: 256,
    shared_bytes=lambda shape, p: 96 << 10,
)
