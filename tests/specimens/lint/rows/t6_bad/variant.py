"""What is tuned for few rows is used for many."""

from gdnbench import TorchKernel

kernel = TorchKernel(
    name="lint-t6-bad",
    runs_on=("cuda",),
)
