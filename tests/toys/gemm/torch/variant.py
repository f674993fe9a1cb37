"""torch's own product."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="gemm-torch")
