"""Floor: reads A once and writes as many bytes as C has, no arithmetic. What its traffic alone takes.

A row of C is a row of A, again and again. The bound of a workload is this or the operations at the GPU's peak.
"""

from gdnbench import CudaKernel, Param, Params, Shape

LOAD = 16  # bytes


def _blocks(shape: Shape, p: Params) -> int:
    """Each lane loads EACH times 16 bytes of A."""
    return -(-shape.M * shape.K // (LOAD * 32 * p.WARPS * p.EACH))


kernel = CudaKernel(
    name="fp8-gemm-pos-floor-copy",
    entry="fp8_gemm_pos_floor_copy",
    params={
        "WARPS": Param(default=8, choices=(4, 8, 16), doc="warps per block"),
        "EACH": Param(default=2, choices=(1, 2, 4, 8), doc="times 16 bytes a lane, all loaded before any is stored"),
    },
    # Not yet chosen by a sweep; a run tries each of them.
    by_shape={Shape(M=4096): {"EACH": 1}, Shape(M=98304): {"EACH": 2}, Shape(M=928256): {"EACH": 4}},
    grid=lambda shape, p: (_blocks(shape, p),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
