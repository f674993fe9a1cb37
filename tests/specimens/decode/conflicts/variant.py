"""decode-v3 without the padding: every lane of a warp reads the same bank of shared memory."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-conflicts",
    entry="conflicts",
    grid=lambda workload, p: (workload.V // 32, workload.B * workload.HV),
    block=lambda workload, p: 32,
)
