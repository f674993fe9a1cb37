"""A matrix product in fp8 whose rows each take a row of a table: a patch embedding with its bias and its positions.

    C = scale_a scale_b (A Bᵀ) + table[m mod P]

A [M, K] and B [N, K] are e4m3, quantised with one fp32 scale each, which is a tensor of one element, as
`torch._scaled_mm` takes them. M is images times the P patches of an image, so that row m is patch m mod P; the table
[P, N] is bf16 and holds the position embedding with the bias in it. Sums, scales and the addition are fp32, and C is
rounded to bf16 once, at the end: rounding the product before the table is added gives other numbers.
"""

from typing import Any

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, Workload, WorkloadSpec

PACK = 16
"""N and K are multiples of it: so torch._scaled_mm asks, and TMA of a row's bytes."""


def flops(workload: Workload) -> dict[str, int]:
    """A product and a sum for each of M x N x K; what is done once an element of C is left out."""
    return {"fp8": 2 * workload.M * workload.N * workload.K}


def copied(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """What the copying floor leaves: in the bytes of each row of C its row of A, as often as it fits."""
    bytes_of_row = 2 * workload.N
    rows = inputs["A"].repeat(1, -(-bytes_of_row // workload.K))[:, :bytes_of_row]
    return {"C": rows.contiguous().view(inputs["table"].dtype)}


def copied_bytes(workload: Workload) -> int:
    """Of A as much as fits into C, read once, and of C all, written once."""
    bytes_of_row = 2 * workload.N
    return workload.M * (min(workload.K, bytes_of_row) + bytes_of_row)


def check(workload: Workload) -> str:
    """Rows of tensors begin where wide copies may."""
    for name in ("N", "K"):
        if workload.axes[name] % PACK:
            return f"{name}={workload.axes[name]} is no multiple of {PACK}, as fp8 products want it"
    return ""


STUDY = (Shape(M=4096), Shape(M=98304), Shape(M=928256))
"""928256 rows are 4736 images; what is expected of them is 5.7 GB in float64, of which gates need several."""

op = Op(
    name="fp8-gemm-pos",
    title="a matrix product in fp8, and a table of positions added to its rows",
    workloads=WorkloadSpec(
        axes=(
            Axis("M", default=4096, doc="rows of A and C, patches of all images"),
            Axis("N", default=768, doc="rows of B, columns of C", compile_time=True, terse=True),
            Axis("K", default=768, doc="columns of A and of B", compile_time=True, terse=True),
            Axis("P", default=196, doc="rows of the table, patches of an image", compile_time=True, terse=True),
        ),
    ),
    check=check,
    inputs=(
        TensorSpec("A", ("M", "K"), "fp8e4m3"),
        TensorSpec("B", ("N", "K"), "fp8e4m3"),
        TensorSpec("scale_a", (1,), "fp32"),
        TensorSpec("scale_b", (1,), "fp32"),
        TensorSpec("table", ("P", "N"), "bf16"),
    ),
    outputs=(TensorSpec("C", ("M", "N"), "bf16"),),
    numerics="numerics.py",
    scenarios=("typical", "cancelling", "outliers", "large", "subnormal"),
    process_sd=(0.003, 0.005),  # of results/evidence/20261126-003619-h100-fp8-gemm-pos-processes
    gates=(RoundoffGate("C"),),
    flops=flops,
    baselines=("fp8-gemm-pos-unfused", "fp8-gemm-pos-reference"),
    floor="fp8-gemm-pos-floor-copy",
    copy=copied,
    copied_bytes=copied_bytes,
    suites={
        "default": STUDY[:1],
        "study": STUDY,
        "verify": (
            Shape(M=205, N=80, K=96),  # no multiple of a tile, nor of P
            Shape(M=77, N=144, K=272, P=5),
            Shape(M=38285, N=48, K=32),  # more tiles than a GPU has SMs, for programs that make several
            Shape(M=1),
            Shape(M=449),
            Shape(M=768),  # a square, in which A and B may be exchanged
        ),
    },
    macro_prefix="GEMM_",
)
