"""More live registers than the launch bounds leave a thread."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-spills",
    entry="spills",
    grid=lambda workload, p: (workload.V, workload.B * workload.HV),
    block=lambda workload, p: 32,
)
