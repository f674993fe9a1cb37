"""A source that raises on line 5 when imported."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-import-error", entry="kernel", grid=lambda workload, p: (workload.V, workload.B * workload.HV)
)
