"""torch's cumsum, a sequence at a time."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="ragged-torch")
