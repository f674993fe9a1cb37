"""Each trial of the tuner adds to the sums of the one before."""

from gdnbench import TorchKernel

kernel = TorchKernel(
    name="lint-t7-bad",
    runs_on=("cuda",),
)
