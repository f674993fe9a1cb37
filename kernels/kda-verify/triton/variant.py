"""A tile of BV rows of the state per program, which it keeps while it walks over the tokens."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="kda-verify-triton",
    entry="kda_verify",
    params={
        "BV": Param(default=8, choices=(2, 4, 8, 16, 32), doc="state rows per program"),
        "WARPS": Param(default=4, choices=(1, 2, 4, 8), doc="warps per program"),
    },
    check=lambda workload: f"K={workload.K} is no power of 2" if workload.K & (workload.K - 1) else "",
    grid=lambda shape, p: (shape.B * shape.H * shape.V // p.BV,),
    warps=lambda shape, p: p.WARPS,
)
