"""torch._scaled_mm, cuBLAS on a GPU, with its product in fp32, and eager torch that adds the table and rounds."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="fp8-gemm-pos-unfused",
    params={"FAST": Param(default=1, choices=(0, 1), doc="1: sums stay in Hopper's tensor cores, use_fast_accum")},
)
