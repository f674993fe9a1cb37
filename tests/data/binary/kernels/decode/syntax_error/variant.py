"""A name that nothing defines, on line 5 of the source."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-syntax-error",
    entry="bad",
    grid=lambda workload, p: (workload.V, workload.B * workload.HV),
    block=lambda workload, p: 32,
)
