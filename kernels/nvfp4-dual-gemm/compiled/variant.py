"""Unpacked to fp16 and multiplied by cuBLAS, through torch.compile: what one gets without writing a kernel."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="nvfp4-dual-gemm-compiled",
    params={"WIDENED": Param(default=0, choices=(0, 1), doc="1: B is widened to fp16 before the calls that are timed")},
    runs_on=("cuda",),
)
