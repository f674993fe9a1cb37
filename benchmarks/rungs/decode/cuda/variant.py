"""decode-v4 with its choices as params: with the defaults v4's machine code, and one param is one change.

They are no kernels to use but the claims of docs/claims.md, each beside what it is a claim about:

    GDNBENCH_KERNELS=benchmarks/rungs gdnbench run -k decode-rungs,decode-rungs:KEY_BYTES=2 --baseline decode-rungs
"""

from gdnbench import CudaKernel, Param, Params, Workload


def _grid(workload: Workload, p: Params) -> tuple[int, ...]:
    tiles, heads = workload.V // (p.WARPS // p.HEADS * p.ROWS), workload.B * workload.HV
    return (min(p.BLOCKS, tiles * heads),) if p.BLOCKS else (tiles, -(-heads // p.HEADS))


kernel = CudaKernel(
    name="decode-rungs",
    entry="gdn_decode_rungs",
    params={
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block"),
        "ROWS": Param(default=1, choices=(1, 2, 4, 8, 16, 32), doc="rows of state per warp, held in registers"),
        "HEADS": Param(default=1, choices=(1, 2, 4), doc="value heads whose rows a block has"),
        "BLOCKS": Param(
            default=0,
            choices=(0, 64, 120, 128, 131, 132, 133, 264, 528, 1056, 1057, 2112),
            doc="blocks that walk over all tiles; 0 for a block a tile",
        ),
        "KEY_BYTES": Param(default=8, choices=(2, 4, 8, 16), doc="bytes that a lane's load of q or k takes"),
        "SHARED_KEYS": Param(default=0, choices=(0, 1), doc="1: one warp brings q and k to shared memory for all"),
        "LOAD": Param(
            default="plain", choices=("plain", "evict_first", "no_allocate"), doc="what L1 does with the state"
        ),
        "KEEP_KEYS": Param(default=0, choices=(0, 1), doc="1: L1 is asked to evict q and k last"),
        "STREAMING_STORES": Param(default=0, choices=(0, 1), doc="1: the state is stored by __stcs"),
        "SCATTERED_OUTPUT": Param(default=0, choices=(0, 1), doc="1: a lane a row stores outputs, not one lane all"),
        "ARITHMETIC": Param(
            default="fused",
            choices=("fused", "written", "separate"),
            doc="products and sums: by fmaf, as a * b + c, or rounded one by one",
        ),
        "SHORT_GATES": Param(default=0, choices=(0, 1), doc="1: the gates by the special function unit, as in v7"),
        "ORDER": Param(default="row", choices=("row", "all"), doc="a row is stored once it is known, or after all"),
        "MIN_BLOCKS": Param(
            default=0,
            choices=(-1, 0, 1, 2, 4, 8),
            doc="of __launch_bounds__, the blocks an SM; 0 leaves that out, -1 the whole of it",
        ),
        "REGISTERS": Param(
            default=0, choices=(0, 16, 24, 32, 64, 128), doc="most registers a thread, in place of __launch_bounds__"
        ),
    },
    grid=_grid,
    block=lambda shape, p: 32 * p.WARPS,
)
