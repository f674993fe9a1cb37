"""Products of matrices in nvfp4, one for each of G groups of rows, each with a second factor of its own: experts.

    C[t, n] = sum over k of value(A[t, k]) sfa[t, k // 16] value(B[g, n, k]) sfb[g, n, k // 16]

where row t is of group g: `ends[g] <= t < ends[g + 1]`. Groups have the same N and K, as the experts of a layer have,
and any number of rows, 0 too. value() is e2m1's, of ±0, 0.5, 1, 1.5, 2, 3, 4 and 6. Two numbers lie in a byte, the
first in its lower half. Scales are e4m3, never negative, and lie in one of two layouts: `scales=plain` is a row of
K / 16 for each row of A or B, and `scales=tiled` has tiles of 128 rows and 4 columns, as `torch._scaled_mm` and the
tensor cores of sm_100 take them (`gdnbench.nvfp4.tiled`), the rows of each group filled up to whole tiles. Each term is
exact in fp32. What is rounded is their sum, in fp32, and C, which is fp16, once.

The suite `nvidia` is the grouped product of NVIDIA's contest of kernels in nvfp4 (2026), in which the groups of each
workload that is timed have the same N and K. Its speed of light for a B200 at 1.5 GHz, as published with the problem:
18.833, 10.667, 2.406 and 1.525 µs.
"""

from typing import Any

from gdnbench import Alias, Axis, AxisList, Op, RoundoffGate, Shape, TensorSpec, Workload, WorkloadSpec

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
    """A product and a sum for each row, of N x K."""
    return {"fp4": 2 * sum(workload.rows) * workload.N * workload.K}


def read_bytes(workload: Workload) -> int:
    """Of the second factors and scales of groups that have rows, read once, and of C, written once."""
    groups = sum(rows > 0 for rows in workload.rows)
    return groups * workload.N * (workload.K // 2 + workload.K // BLOCK) + 2 * sum(workload.rows) * workload.N


def least_bytes(workload: Workload) -> int:
    """As `read_bytes`, with A and its scales."""
    return read_bytes(workload) + sum(workload.rows) * (workload.K // 2 + workload.K // BLOCK)


def read(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the reading floor leaves: in column n of a group exclusive ors of row n of its B, and of its scales.

    The scales' is of the n-th K / 16 bytes that the group has, in whichever layout.
    """
    import torch  # in a worker, which has it

    from gdnbench.nvfp4 import folded

    scales = inputs["sfb"].view(torch.uint8)[:, : workload.N]
    of_groups = torch.cat([folded(inputs["B"]), folded(scales)], dim=-1).view(torch.float16).squeeze(-1)
    ends = inputs["ends"].long()
    return {"C": of_groups.repeat_interleave(ends.diff(), dim=0)}


def check(workload: Workload) -> str:
    """Rows begin where wide loads and stores may, and there is one."""
    for name, least in (("N", COLUMNS), ("K", ROW)):
        if workload.axes[name] % least:
            return f"{name}={workload.axes[name]} is no multiple of {least}"
    return "" if sum(workload.rows) else "every group is empty"


FIRST, SECOND = (80, 176, 128, 72, 64, 248, 96, 160), (40, 76, 168, 72, 164, 148, 196, 160)

op = Op(
    name="nvfp4-grouped-gemm",
    title="products of matrices in nvfp4, one a group of rows",
    workloads=WorkloadSpec(
        axes=(
            Axis("N", default=128, doc="rows of a group's B, columns of C", compile_time=True),
            Axis("K", default=512, doc="columns of A and of B", compile_time=True),
            Axis("TILED", default=0, doc="layout of scales", compile_time=True, terse=True, least=0, most=1),
        ),
        lists=(AxisList("rows", default=(96, 40, 160), doc="rows of A and C of each group"),),
        aliases=(Alias("scales", "{TILED}", words={"plain": 0, "tiled": 1}),),
        x="rows",
        size=("rows", "N", "K"),
    ),
    check=check,
    derived={
        "T": lambda workload: sum(workload.rows),
        "G": lambda workload: len(workload.rows),
        "ENDS": lambda workload: len(workload.rows) + 1,
        "packed": lambda workload: workload.K // 2,
        "blocks": lambda workload: workload.K // BLOCK,
        "rows_sfa": lambda workload: sum(scale_rows(rows, workload) for rows in workload.rows),
        "rows_sfb": lambda workload: scale_rows(workload.N, workload),
    },
    inputs=(
        TensorSpec("A", ("T", "packed"), "fp4x2"),
        TensorSpec("sfa", ("rows_sfa", "blocks"), "fp8e4m3"),
        TensorSpec("B", ("G", "N", "packed"), "fp4x2"),
        TensorSpec("sfb", ("G", "rows_sfb", "blocks"), "fp8e4m3"),
        TensorSpec("ends", ("ENDS",), "int32"),
    ),
    outputs=(TensorSpec("C", ("T", "N"), "fp16"),),
    numerics="numerics.py",
    ends={"rows": "ends"},
    scenarios=("typical", "all-codes", "cancelling", "like-signs", "small-scales"),
    process_sd=(0.001, 0.021),  # of results/evidence/20261126-003735-h100-nvfp4-grouped-gemm-processes
    gates=(RoundoffGate("C"),),
    flops=flops,
    instead={"fp4": "fp16"},
    least_bytes=least_bytes,
    baselines=("nvfp4-grouped-gemm-reference",),
    floor="nvfp4-grouped-gemm-floor-read",
    copy=read,
    copied_bytes=read_bytes,
    suites={
        "default": (Shape(rows=(96, 40, 160)), Shape(rows=(96, 40, 160), TILED=1)),
        "nvidia": (
            Shape(rows=FIRST, N=4096, K=7168),
            Shape(rows=SECOND, N=7168, K=2048),
            Shape(rows=(192, 320), N=3072, K=4096),
            Shape(rows=(128, 384), N=4096, K=1536),
        ),
        "nvidia-tiled": (
            Shape(rows=FIRST, N=4096, K=7168, TILED=1),
            Shape(rows=SECOND, N=7168, K=2048, TILED=1),
            Shape(rows=(192, 320), N=3072, K=4096, TILED=1),
            Shape(rows=(128, 384), N=4096, K=1536, TILED=1),
        ),
        "verify": (
            Shape(rows=(37, 0, 5), N=80, K=256),
            Shape(rows=(130, 1, 0, 20), N=144, K=512, TILED=1),
            Shape(rows=(0, 1), N=16, K=1792),
            Shape(rows=(96, 40, 160)),
        ),
    },
    macro_prefix="GEMM_",
)
