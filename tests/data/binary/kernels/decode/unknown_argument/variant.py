"""An argument that nothing provides."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-unknown-argument",
    entry="kernel",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
)
