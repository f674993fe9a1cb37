"""Written and read again, in a loop of two stages."""

from gdnbench import TritonKernel

kernel = TritonKernel(name="relay-staged", entry="relay", grid=lambda workload, p: (workload.M,))
