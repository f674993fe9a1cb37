"""A matrix times a vector, both in nvfp4, for each of L pairs: numbers of four bits with a scale for each 16 of them.

    c[l, m] = sum over k of value(a[l, m, k]) sfa[l, m, k // 16] value(b[l, k]) sfb[l, k // 16]

value() is e2m1's, of ±0, 0.5, 1, 1.5, 2, 3, 4 and 6: a sign, two bits of exponent with a bias of 1, and one of
significand. Two numbers lie in a byte, the first in its lower half. Scales are e4m3, never negative. Each term is exact
in fp32. What is rounded is their sum, in fp32, and c, which is fp16.
"""

from typing import Any

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, Workload, WorkloadSpec

BLOCK = 16
"""Numbers that share a scale."""
ROW = 256
"""K is a multiple of it, so that a row of scales begins where a load of 16 bytes may."""


def packed(workload: Workload) -> int:
    """Bytes of K numbers."""
    return workload.K // 2


def blocks(workload: Workload) -> int:
    """Scales of K numbers."""
    return workload.K // BLOCK


def flops(workload: Workload) -> dict[str, int]:
    """A product and a sum for each number of a."""
    return {"fp4": 2 * workload.L * workload.M * workload.K}


def read_bytes(workload: Workload) -> int:
    """Of a and its scales, read once, and of c, written once."""
    return workload.L * workload.M * (packed(workload) + blocks(workload) + 2)


def read(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the reading floor leaves: in each of c's two bytes the exclusive or of its row of a, and of its scales."""
    import torch  # in a worker, which has it

    from gdnbench.nvfp4 import folded

    del workload
    each = [folded(inputs["a"]), folded(inputs["sfa"].view(torch.uint8))]
    return {"c": torch.cat(each, dim=-1).view(torch.float16).squeeze(-1)}


def check(workload: Workload) -> str:
    """Rows begin where wide loads may."""
    return f"K={workload.K} is no multiple of {ROW}" if workload.K % ROW else ""


op = Op(
    name="nvfp4-gemv",
    title="a matrix times a vector, both in nvfp4",
    workloads=WorkloadSpec(
        axes=(
            Axis("M", default=7168, doc="rows of a matrix"),
            Axis("K", default=16384, doc="columns of a matrix, numbers of a vector", compile_time=True),
            Axis("L", default=1, doc="matrices, each with a vector"),
        ),
    ),
    check=check,
    derived={"packed": packed, "blocks": blocks},
    inputs=(
        TensorSpec("a", ("L", "M", "packed"), "fp4x2"),
        TensorSpec("sfa", ("L", "M", "blocks"), "fp8e4m3"),
        TensorSpec("b", ("L", "packed"), "fp4x2"),
        TensorSpec("sfb", ("L", "blocks"), "fp8e4m3"),
    ),
    outputs=(TensorSpec("c", ("L", "M"), "fp16"),),
    numerics="numerics.py",
    scenarios=("typical", "all-codes", "cancelling", "like-signs", "small-scales"),
    process_sd=(0.001, 0.002),  # of results/evidence/20261125-192415-h100-nvfp4-gemv-processes
    gates=(RoundoffGate("c"),),
    flops=flops,
    baselines=("nvfp4-gemv-reference",),
    floor="nvfp4-gemv-floor-read",
    copy=read,
    copied_bytes=read_bytes,
    suites={
        "default": (Shape(M=7168, K=16384, L=1), Shape(M=4096, K=7168, L=8), Shape(M=7168, K=2048, L=4)),
        "verify": (
            Shape(M=37, K=256, L=3),
            Shape(M=5, K=1792, L=2),
            Shape(M=1, K=2048, L=1),
            Shape(M=129, K=2048, L=2),
            Shape(M=65, K=16384, L=1),
        ),
    },
    macro_prefix="GEMV_",
)
