"""The mathematics in torch operations, fp32, some rows at a time."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="fp8-gemm-pos-reference")
