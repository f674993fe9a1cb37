"""A source that waits for ever."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-hangs", entry="kernel", grid=lambda workload, p: (workload.V, workload.B * workload.HV)
)
