"""Sums by halving in shared memory, with a barrier of the whole block at each step."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-barriers",
    entry="barriers",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 1024,
)
