"""An error on line 9 of the source, in a function that the kernel calls."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="test-wrong-line", entry="kernel", grid=lambda workload, p: (workload.V, workload.B * workload.HV)
)
