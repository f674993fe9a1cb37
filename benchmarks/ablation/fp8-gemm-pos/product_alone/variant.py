"""cuBLAS's product without the table: the floor of the product, and wrong on purpose.

An ablation is timed beside kernels, held to nothing and compared with nothing:

    GDNBENCH_KERNELS=benchmarks/ablation gdnbench run --op fp8-gemm-pos -k fp8-gemm-pos-product,fp8-gemm-pos-v1
"""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="fp8-gemm-pos-product",
    params={"FAST": Param(default=1, choices=(0, 1), doc="1: sums stay in the tensor cores, as those of ours do")},
    floor="ablation",
)
