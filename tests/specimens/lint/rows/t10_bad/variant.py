"""Written and read again in a loop of three stages."""

from gdnbench import TritonKernel

kernel = TritonKernel(name="lint-t10-bad", entry="rows", grid=lambda workload, p: (workload.M,))
