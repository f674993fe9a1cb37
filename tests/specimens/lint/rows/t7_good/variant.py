"""As lint-t7-bad, without its mistake."""

from gdnbench import TorchKernel

kernel = TorchKernel(
    name="lint-t7-good",
    runs_on=("cuda",),
)
