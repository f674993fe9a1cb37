"""decode-v9 with parts of it left out, so that the difference shows what each costs. Wrong on purpose.

An ablation is timed beside kernels, held to nothing and compared with nothing:

    GDNBENCH_KERNELS=benchmarks/ablation gdnbench run -k decode-v9,decode-v9-without:PARTS=1,decode-v9-without:PARTS=15
"""

from gdnbench import CudaKernel, Param

_ROWS = 16  # of a block, as decode-v9 has them at B=1: 4 warps, 8 lanes a row

kernel = CudaKernel(
    name="decode-v9-without",
    entry="gdn_decode_v9_without",
    params={
        "PARTS": Param(
            default=0,
            choices=tuple(range(16)),
            doc="what is left out, added up: 1 the gates' arithmetic, 2 sums over lanes, 4 loads of k and q, "
            "8 loads of v and of what the gates are made of",
        )
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // _ROWS,),
    block=lambda shape, p: 128,
    floor="ablation",
)
