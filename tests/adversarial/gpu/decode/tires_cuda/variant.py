"""decode-v4 that leaves half of its rows out from its 201st launch on."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-tires-cuda",
    entry="tires",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
)
