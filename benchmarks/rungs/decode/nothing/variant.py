"""An empty kernel on a grid of any size: what a launch of one block costs, and what each further block adds."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-nothing",
    entry="gdn_decode_nothing",
    params={
        "BLOCKS": Param(default=1, choices=(1, 8, 64, 128, 132, 1024, 8192), doc="blocks of the grid"),
        "THREADS": Param(default=256, choices=(32, 256), doc="threads per block"),
    },
    grid=lambda shape, p: (p.BLOCKS,),
    block=lambda shape, p: p.THREADS,
    floor="ablation",
)
