"""fp8-gemm-pos-v3 with its sums rounded to bf16 before the table is added, which the gate refuses: what would it save?

An ablation is timed beside kernels, held to nothing and compared with nothing:

    GDNBENCH_KERNELS=benchmarks/ablation gdnbench run --op fp8-gemm-pos -k fp8-gemm-pos-packed,fp8-gemm-pos-v3
"""

from gdnbench import CudaKernel, CudaLaunch, Param, TensorMap

kernel = CudaKernel(
    name="fp8-gemm-pos-packed",
    target="sm_90a",
    params={
        "PACKED": Param(default=2, choices=(0, 1, 2), doc="bf16 pairs: 1 the addition, 2 a fused one, also the scale"),
        "KEEP": Param(default=0, choices=(0, 1), doc="as of fp8-gemm-pos-v3"),
    },
    floor="ablation",
    launches=(
        CudaLaunch(
            entry="fp8_gemm_pos_v3",
            grid=lambda shape, p: (4 * min(33, -(-shape.M // 64)),),
            block=lambda shape, p: 3 * 128,
            shared_bytes=lambda shape, p: 225 * 1024,
            arguments=(
                *("B", "scale_a", "scale_b", "table", "C"),
                TensorMap("A", box=(64, 128)),
                TensorMap("C", box=(16, 64)),
                "M",
            ),
        ),
    ),
)
