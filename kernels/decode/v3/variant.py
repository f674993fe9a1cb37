"""One thread per V-row, whole dot products and no shuffles; a tile of 32 rows in shared memory, padded by one float."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-v3",
    entry="gdn_decode_v3",
    params={"UNROLL": Param(default=1, choices=(0, 1), doc="1 unrolls the loops over K, 0 keeps them loops of 16")},
    grid=lambda shape, p: (shape.V // 32, shape.B * shape.HV),
    block=lambda shape, p: 32,
    invariant=("batch", "order", "rerun"),
)
