"""fp8-gemm-pos-v4 with parts of it left out, so that the difference shows what each costs. Wrong on purpose.

An ablation is timed beside kernels, held to nothing and compared with nothing:

    GDNBENCH_KERNELS=benchmarks/ablation gdnbench run --op fp8-gemm-pos --shape M=928256 \
        -k fp8-gemm-pos-v4,fp8-gemm-pos-without,fp8-gemm-pos-without:LEFT=1
"""

from gdnbench import CudaKernel, CudaLaunch, Param, TensorMap

kernel = CudaKernel(
    name="fp8-gemm-pos-without",
    target="sm_90a",
    params={
        "LEFT": Param(
            default=0,
            choices=tuple(range(32)),
            doc="what is left out, added up: 1 stores of C, 2 copies of A but the first, 4 products, 8 all rows of A "
            "but 16384, which the L2 holds, 16 the same of C",
        ),
    },
    floor="ablation",
    launches=(
        CudaLaunch(
            entry="fp8_gemm_pos_without",
            grid=lambda shape, p: (4 * min(33, -(-shape.M // 64)),),
            block=lambda shape, p: 3 * 128,
            shared_bytes=lambda shape, p: 225 * 1024,
            arguments=(
                *("scale_a", "scale_b", "table", "C"),
                TensorMap("A", box=(64, 128)),
                TensorMap("B", box=(24, 2, 128), sizes=lambda shape, p: (shape.N // 8, 8, shape.K)),
                "M",
            ),
        ),
    ),
)
