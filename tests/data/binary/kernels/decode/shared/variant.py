"""256 bytes of static shared memory."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-shared",
    entry="shared",
    grid=lambda workload, p: (workload.V, workload.B * workload.HV),
    block=lambda workload, p: 32,
)
