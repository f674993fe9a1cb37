"""As lint-t6-bad, without its mistake."""

from gdnbench import TorchKernel

kernel = TorchKernel(
    name="lint-t6-good",
    runs_on=("cuda",),
)
