"""As lint-c5-bad, without its mistake."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c5-good", entry="rows", grid=lambda workload, p: (workload.M,), block=lambda workload, p: 128
)
