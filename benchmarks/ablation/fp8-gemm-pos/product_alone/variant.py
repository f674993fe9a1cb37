"""cuBLAS's product without the table: the floor of the product, and wrong on purpose.

Declared as a floor, so that nobody asks whether it is right:

    GDNBENCH_KERNELS=benchmarks/ablation gdnbench run --op fp8-gemm-pos -k fp8-gemm-pos-product,fp8-gemm-pos-v1
"""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="fp8-gemm-pos-product",
    params={"FAST": Param(default=1, choices=(0, 1), doc="1: sums stay in the tensor cores, as those of ours do")},
    floor="empty",
)
