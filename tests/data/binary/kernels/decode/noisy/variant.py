"""A source that prints on stdout and reads stdin."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-noisy",
    entry="kernel",
    grid=lambda shape, p: (shape.V, shape.B * shape.HV),
)
