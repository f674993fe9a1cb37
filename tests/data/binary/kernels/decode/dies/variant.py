"""A source that ends the process that imports it."""

from gdnbench import TritonKernel

kernel = TritonKernel(name="test-dies", entry="kernel", grid=lambda workload, p: (workload.V, workload.B * workload.HV))
