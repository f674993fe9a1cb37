"""Unpacked to fp16 and multiplied by cuBLAS, through torch.compile: what one gets without writing a kernel."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="nvfp4-gemm-compiled", runs_on=("cuda",))
