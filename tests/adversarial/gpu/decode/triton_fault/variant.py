from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-triton-fault", entry="fault", grid=lambda workload, p: (workload.V, workload.B * workload.HV)
)
