"""The decay anew for each element of the state, and its exponential as a long product."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-arithmetic",
    entry="arithmetic",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
)
