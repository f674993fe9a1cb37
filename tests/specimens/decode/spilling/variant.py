"""decode-v1 with twice the rows that its registers hold."""

from gdnbench import CudaKernel

ROWS = 32

kernel = CudaKernel(
    name="test-spilling",
    entry="spilling",
    grid=lambda workload, p: (workload.V // ROWS, workload.B * workload.HV),
    block=lambda workload, p: 32,
)
