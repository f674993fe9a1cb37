"""decode-v4 that forgets the scale."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-wrong-cuda",
    entry="wrong",
    grid=lambda shape, p: (shape.V // 8, shape.B * shape.HV),
    block=lambda shape, p: 256,
)
