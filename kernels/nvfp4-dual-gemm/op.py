"""Two products of matrices in nvfp4 that share their first factor, the first of them a gate: half of a gated layer.

    C[m, n] = silu(x[m, n]) y[m, n]        silu(x) = x / (1 + exp(-x))
    x[m, n] = sum over k of value(A[m, k]) sfa[m, k // 16] value(B1[n, k]) sfb1[n, k // 16]
    y[m, n] = sum over k of value(A[m, k]) sfa[m, k // 16] value(B2[n, k]) sfb2[n, k // 16]

value() is e2m1's, of ±0, 0.5, 1, 1.5, 2, 3, 4 and 6. Two numbers lie in a byte, the first in its lower half. Scales are
e4m3, never negative, and lie in one of two layouts: `scales=plain` is a row of K / 16 for each row of a matrix, and
`scales=tiled` has tiles of 128 rows and 4 columns, as `torch._scaled_mm` and the tensor cores of sm_100 take them
(`gdnbench.nvfp4.tiled`), rows filled up to whole tiles. Each term is exact in fp32. Sums, silu and the last product are
fp32, and C is rounded to fp16 once, at the end.

The suite `nvidia` is the dual product of NVIDIA's contest of kernels in nvfp4 (2025). Its speed of light for a B200 at
1.5 GHz, as published with the problem: 4.708, 8.714, 2.125 and 6.535 µs.
"""

from typing import Any

from gdnbench import Alias, Axis, Op, RoundoffGate, Shape, TensorSpec, Workload, WorkloadSpec

BLOCK = 16
"""Numbers that share a scale."""
ROW = 256
"""K is a multiple of it, so that no part of a row has to be left out, and a row of scales begins at 16 bytes."""
COLUMNS = 16
"""N is a multiple of it, so that rows of C begin where wide stores may."""
TILE = 128
"""Rows of a tile of scales."""


def scale_rows(rows: int, workload: Workload) -> int:
    """Rows of scales of a matrix that has so many."""
    return -(-rows // TILE) * TILE if workload.TILED else rows


def flops(workload: Workload) -> dict[str, int]:
    """A product and a sum for each of M x N x K, twice; what is done once an element of C is left out."""
    return {"fp4": 4 * workload.M * workload.N * workload.K}


def read_bytes(workload: Workload) -> int:
    """Of B1, B2 and their scales, read once, and of C, written once."""
    return 2 * workload.N * (workload.K // 2 + workload.K // BLOCK) + 2 * workload.M * workload.N


def read(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the reading floor leaves: in column n of C exclusive ors of row n of B1 with its scales, and of B2's.

    The scales' are of the n-th K / 16 bytes that they have, in whichever layout. B1's is in the lower byte.
    """
    import torch  # in a worker, which has it

    from gdnbench.nvfp4 import folded

    def of(bits: Any, scales: Any) -> Any:
        return folded(bits) ^ folded(scales.view(torch.uint8)[: workload.N])

    each = [of(inputs["B1"], inputs["sfb1"]), of(inputs["B2"], inputs["sfb2"])]
    row = torch.cat(each, dim=-1).view(torch.float16)
    return {"C": row.view(1, workload.N).expand(workload.M, -1).contiguous()}


def check(workload: Workload) -> str:
    """Rows begin where wide loads and stores may."""
    for name, least in (("N", COLUMNS), ("K", ROW)):
        if workload.axes[name] % least:
            return f"{name}={workload.axes[name]} is no multiple of {least}"
    return ""


op = Op(
    name="nvfp4-dual-gemm",
    title="two products of matrices in nvfp4, one the gate of the other",
    workloads=WorkloadSpec(
        axes=(
            Axis("M", default=128, doc="rows of A and C"),
            Axis("N", default=128, doc="rows of B1 and of B2, columns of C", compile_time=True),
            Axis("K", default=1024, doc="columns of A, B1 and B2", compile_time=True),
            Axis("TILED", default=0, doc="layout of scales", compile_time=True, terse=True, least=0, most=1),
        ),
        aliases=(Alias("scales", "{TILED}", words={"plain": 0, "tiled": 1}),),
        size=("M", "N", "K"),
    ),
    check=check,
    derived={
        "packed": lambda workload: workload.K // 2,
        "blocks": lambda workload: workload.K // BLOCK,
        "rows_sfa": lambda workload: scale_rows(workload.M, workload),
        "rows_sfb": lambda workload: scale_rows(workload.N, workload),
    },
    inputs=(
        TensorSpec("A", ("M", "packed"), "fp4x2"),
        TensorSpec("sfa", ("rows_sfa", "blocks"), "fp8e4m3"),
        TensorSpec("B1", ("N", "packed"), "fp4x2"),
        TensorSpec("sfb1", ("rows_sfb", "blocks"), "fp8e4m3"),
        TensorSpec("B2", ("N", "packed"), "fp4x2"),
        TensorSpec("sfb2", ("rows_sfb", "blocks"), "fp8e4m3"),
    ),
    outputs=(TensorSpec("C", ("M", "N"), "fp16"),),
    numerics="numerics.py",
    scenarios=("typical", "all-codes", "cancelling", "like-signs", "small-scales"),
    process_sd=(0.001, 0.02),  # of results/evidence/20261126-003655-h100-nvfp4-dual-gemm-processes
    gates=(RoundoffGate("C"),),
    flops=flops,
    instead={"fp4": "fp16"},
    baselines=("nvfp4-dual-gemm-reference",),
    floor="nvfp4-dual-gemm-floor-read",
    copy=read,
    copied_bytes=read_bytes,
    suites={
        "default": (Shape(M=128, N=128, K=1024), Shape(M=128, N=128, K=1024, TILED=1)),
        "nvidia": (
            Shape(M=256, N=4096, K=7168),
            Shape(M=512, N=4096, K=7168),
            Shape(M=256, N=3072, K=4096),
            Shape(M=512, N=3072, K=7168),
        ),
        "nvidia-tiled": (
            Shape(M=256, N=4096, K=7168, TILED=1),
            Shape(M=512, N=4096, K=7168, TILED=1),
            Shape(M=256, N=3072, K=4096, TILED=1),
            Shape(M=512, N=3072, K=7168, TILED=1),
        ),
        "verify": (
            Shape(M=37, N=80, K=256),
            Shape(M=130, N=144, K=512, TILED=1),
            Shape(M=1, N=16, K=1792),
            Shape(M=128, N=128, K=1024),
        ),
    },
    macro_prefix="GEMM_",
)
