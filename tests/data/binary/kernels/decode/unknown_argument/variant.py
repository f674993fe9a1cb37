"""An argument that nothing provides."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-unknown-argument", entry="kernel", grid=lambda workload, p: (workload.V, workload.B * workload.HV)
)
