"""A source that waits for ever."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-hangs",
    entry="kernel",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
)
