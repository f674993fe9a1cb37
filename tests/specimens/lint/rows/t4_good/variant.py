"""As lint-t4-bad, without its mistake."""

from gdnbench import TritonKernel

kernel = TritonKernel(name="lint-t4-good", entry="rows", grid=lambda workload, p: (workload.M,))
