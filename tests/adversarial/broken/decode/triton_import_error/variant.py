from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-triton-import-error", entry="kernel", grid=lambda workload, p: (workload.V, workload.B * workload.HV)
)
