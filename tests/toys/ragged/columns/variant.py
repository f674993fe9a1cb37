"""torch's cumsum, a column of a sequence at a time."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="ragged-columns")
