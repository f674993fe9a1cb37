"""A thread a row, four bytes a load: the lanes of a warp read 512 bytes apart."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-scattered",
    entry="scattered",
    grid=lambda workload, p: (1, workload.B * workload.HV),
    block=lambda workload, p: workload.V,
)
