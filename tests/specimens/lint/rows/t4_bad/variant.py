"""A row's offset in int32."""

from gdnbench import TritonKernel

kernel = TritonKernel(name="lint-t4-bad", entry="rows", grid=lambda workload, p: (workload.M,))
