"""A source without the kernel that the declaration names."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-no-such-entry",
    entry="missing",
    grid=lambda workload, p: (workload.V, workload.B * workload.HV),
    block=lambda workload, p: 32,
)
