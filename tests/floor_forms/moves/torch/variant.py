"""torch's copy, after a wait."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="moves-torch")
