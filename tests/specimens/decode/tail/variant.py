"""A block fills an SM and works a head: a few blocks more than SMs take a second wave."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-tail",
    entry="tail",
    grid=lambda workload, p: (1, workload.B * workload.HV),
    block=lambda workload, p: 1024,
    shared_bytes=lambda workload, p: 120 << 10,
)
