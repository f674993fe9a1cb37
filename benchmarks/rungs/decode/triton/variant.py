"""decode-triton with its choices as params: with the defaults its machine code, and one param is one change.

They are no kernels to use but the claims of docs/claims.md, each beside what it is a claim about:

    GDNBENCH_KERNELS=benchmarks/rungs gdnbench run -k decode-rungs-triton,decode-rungs-triton:TILE=kv \
        --baseline decode-rungs-triton
"""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="decode-rungs-triton",
    entry="gdn_decode_rungs",
    params={
        "BV": Param(default=8, choices=(1, 2, 4, 8, 16, 32, 64, 128), doc="state rows per program"),
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per program"),
        "STAGES": Param(default=1, choices=(1, 2, 3, 4), doc="pipeline depth; this kernel has no loop to pipeline"),
        "BK": Param(default=128, choices=(32, 64, 128), doc="columns at once; fewer than K take two passes"),
        "TILE": Param(default="vk", choices=("vk", "kv"), doc="axes of the tile: vk as they lie in memory"),
        "EVICT": Param(
            default="none",
            choices=("none", "load", "store", "keys"),
            doc="eviction_policy: the state first as it is loaded, or stored; or q and k last",
        ),
        "LATE": Param(default=0, choices=(0, 1), doc="1: all loads of q, k, v stand before the first is widened"),
    },
    grid=lambda shape, p: (shape.V // p.BV, shape.B * shape.HV),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
