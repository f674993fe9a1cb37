"""decode-v3 without the padding: every lane of a warp reads the same bank of shared memory."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-conflicts",
    entry="conflicts",
    grid=lambda shape, p: (shape.V // 32, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
