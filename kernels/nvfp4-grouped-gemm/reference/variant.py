"""The mathematics in torch operations, fp32: numbers are looked up in a table of the 16 codes."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="nvfp4-grouped-gemm-reference")
