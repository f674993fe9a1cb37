"""A product of two matrices in nvfp4, for each of L pairs: numbers of four bits with a scale for each 16 of them.

    C[l, m, n] = sum over k of value(A[l, m, k]) sfa[l, m, k // 16] value(B[l, n, k]) sfb[l, n, k // 16]

value() is e2m1's, of ±0, 0.5, 1, 1.5, 2, 3, 4 and 6. Two numbers lie in a byte, the first in its lower half. Scales are
e4m3, never negative, and lie in one of two layouts: `scales=plain` is a row of K / 16 for each row of A or B, and
`scales=tiled` has tiles of 128 rows and 4 columns, as `torch._scaled_mm` and the tensor cores of sm_100 take them
(`gdnbench.nvfp4.tiled`), rows filled up to whole tiles. Each term is exact in fp32. What is rounded is their sum, in
fp32, and C, which is fp16, once.

The suite `nvidia` is the product of NVIDIA's contest of kernels in nvfp4 (2025). Its speed of light for a B200 at
1.5 GHz, as published with the problem: 8.994, 2.354 and 1.333 µs.
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
    """A product and a sum for each of L x M x N x K."""
    return {"fp4": 2 * workload.L * workload.M * workload.N * workload.K}


def read_bytes(workload: Workload) -> int:
    """Of B and its scales, read once, and of C, written once."""
    rows = workload.L * workload.N
    return rows * (workload.K // 2 + workload.K // BLOCK) + 2 * workload.L * workload.M * workload.N


def read(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the reading floor leaves: in both bytes of column n of C the exclusive or of row n of B, and of its scales.

    The scales' is of the n-th K / 16 bytes that they have, in whichever layout.
    """
    import torch  # in a worker, which has it

    from gdnbench.nvfp4 import folded

    scales = inputs["sfb"].view(torch.uint8)[:, : workload.N]
    row = torch.cat([folded(inputs["B"]), folded(scales)], dim=-1).view(torch.float16)
    return {"C": row.view(workload.L, 1, workload.N).expand(-1, workload.M, -1).contiguous()}


def check(workload: Workload) -> str:
    """Rows begin where wide loads and stores may."""
    for name, least in (("N", COLUMNS), ("K", ROW)):
        if workload.axes[name] % least:
            return f"{name}={workload.axes[name]} is no multiple of {least}"
    return ""


op = Op(
    name="nvfp4-gemm",
    title="a product of matrices in nvfp4",
    workloads=WorkloadSpec(
        axes=(
            Axis("M", default=128, doc="rows of A and C"),
            Axis("N", default=256, doc="rows of B, columns of C", compile_time=True),
            Axis("K", default=1024, doc="columns of A and of B", compile_time=True),
            Axis("L", default=1, doc="pairs of matrices", terse=True),
            Axis("TILED", default=0, doc="layout of scales", compile_time=True, terse=True, least=0, most=1),
        ),
        aliases=(Alias("scales", "{TILED}", words={"plain": 0, "tiled": 1}),),
        size=("M", "N", "K", "L"),
    ),
    check=check,
    derived={
        "packed": lambda workload: workload.K // 2,
        "blocks": lambda workload: workload.K // BLOCK,
        "rows_sfa": lambda workload: scale_rows(workload.M, workload),
        "rows_sfb": lambda workload: scale_rows(workload.N, workload),
    },
    inputs=(
        TensorSpec("A", ("L", "M", "packed"), "fp4x2"),
        TensorSpec("sfa", ("L", "rows_sfa", "blocks"), "fp8e4m3"),
        TensorSpec("B", ("L", "N", "packed"), "fp4x2"),
        TensorSpec("sfb", ("L", "rows_sfb", "blocks"), "fp8e4m3"),
    ),
    outputs=(TensorSpec("C", ("L", "M", "N"), "fp16"),),
    numerics="numerics.py",
    scenarios=("typical", "all-codes", "cancelling", "like-signs", "small-scales"),
    process_sd=(0.002, 0.022),  # of results/evidence/20261126-003538-h100-nvfp4-gemm-processes
    gates=(RoundoffGate("C"),),
    flops=flops,
    instead={"fp4": "fp16"},
    baselines=("nvfp4-gemm-reference",),
    floor="nvfp4-gemm-floor-read",
    copy=read,
    copied_bytes=read_bytes,
    suites={
        "default": (Shape(M=128, N=256, K=1024), Shape(M=128, N=256, K=1024, TILED=1)),
        "nvidia": (
            Shape(M=128, N=7168, K=16384),
            Shape(M=128, N=4096, K=7168),
            Shape(M=128, N=7168, K=2048),
        ),
        "nvidia-tiled": (
            Shape(M=128, N=7168, K=16384, TILED=1),
            Shape(M=128, N=4096, K=7168, TILED=1),
            Shape(M=128, N=7168, K=2048, TILED=1),
        ),
        "verify": (
            Shape(M=37, N=80, K=256, L=2),
            Shape(M=130, N=144, K=512, L=2, TILED=1),
            Shape(M=1, N=16, K=1792),
            Shape(M=128, N=256, K=1024),
        ),
    },
    macro_prefix="GEMM_",
)
