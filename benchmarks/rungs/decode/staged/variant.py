"""decode-v3 without some of its __syncwarp(): as the study had it, with a race that the interpreter names."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-rungs-staged",
    entry="gdn_decode_rungs_staged",
    params={
        "UNROLL": Param(default=1, choices=(0, 1), doc="1 unrolls the loops over K, 0 keeps them loops of 16"),
        "SYNC": Param(
            default=7,
            choices=(0, 5, 7),
            doc="which __syncwarp() are there, added up: 1 after the loads, 2 between the passes, 4 before the stores",
        ),
        "REGISTERS": Param(default=0, choices=(0, 56), doc="most registers a thread, in place of __launch_bounds__"),
    },
    grid=lambda shape, p: (shape.V // 32, shape.B * shape.HV),
    block=lambda shape, p: 32,
)
