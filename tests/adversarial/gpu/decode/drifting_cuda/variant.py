"""decode-v4 that is right only at its first launch."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-drifting-cuda",
    entry="drifting",
    grid=lambda shape, p: (shape.V // 8, shape.B * shape.HV),
    block=lambda shape, p: 256,
)
