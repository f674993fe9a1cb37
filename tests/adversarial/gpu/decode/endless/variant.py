from gdnbench import CudaKernel

kernel = CudaKernel(name="test-endless", entry="endless", grid=lambda workload, p: (1,), block=lambda workload, p: 32)
