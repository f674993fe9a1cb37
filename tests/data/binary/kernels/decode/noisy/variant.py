"""A source that prints on stdout and reads stdin."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-noisy", entry="kernel", grid=lambda workload, p: (workload.V, workload.B * workload.HV)
)
