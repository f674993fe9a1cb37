"""An offset in int."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c5-bad", entry="rows", grid=lambda workload, p: (workload.M,), block=lambda workload, p: 128
)
