"""A source that ends the process that imports it."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-dies",
    entry="kernel",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
)
