"""A program a row, along y."""

from gdnbench import TritonKernel

kernel = TritonKernel(name="lint-t9-bad", entry="rows", grid=lambda workload, p: (1, workload.M))
