from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-illegal-address", entry="fault", grid=lambda workload, p: (1,), block=lambda workload, p: 32
)
