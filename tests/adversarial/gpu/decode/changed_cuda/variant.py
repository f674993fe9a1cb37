"""decode-v4 that writes the new state into its input, too."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-changed-cuda",
    entry="changed",
    grid=lambda shape, p: (shape.V // 8, shape.B * shape.HV),
    block=lambda shape, p: 256,
)
