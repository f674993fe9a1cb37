"""As lint-t5-bad, without its mistake."""

from gdnbench import TritonKernel

kernel = TritonKernel(
    name="lint-t5-good",
    entry="rows",
    grid=lambda workload, p: (workload.M,),
)
