from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-too-many-threads", entry="wide", grid=lambda workload, p: (1,), block=lambda workload, p: 2048
)
