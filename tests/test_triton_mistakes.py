"""The mistakes that are made most in Triton, each named by its line without a GPU: by verify or by the build.

Each is one change of a kernel that is right: a product of matrices whose sizes are no multiples of its tiles.
"""

from pathlib import Path

import pytest
from faults import REPOSITORY
from write_kernels import write_kernel

from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.status import Status
from gdnbench.verify.preflight import verify_variants

pytestmark = pytest.mark.slow

OP = (REPOSITORY / "tests" / "toys" / "gemm" / "op.py").read_text()
SUITES = 'suites={"default": (Shape(M=21, N=40, Kd=40),), "verify": (Shape(M=21, N=40, Kd=40),)}'
KERNEL = """import triton
import triton.language as tl


@triton.jit
def tile(A, B, C, M, N: tl.constexpr, Kd: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for first in range(0, Kd, BK):
        inner = first + tl.arange(0, BK)
        in_a = (rows[:, None] < M) & (inner[None, :] < Kd)
        in_b = (inner[:, None] < Kd) & (columns[None, :] < N)
        a = tl.load(A + rows[:, None] * Kd + inner[None, :], mask=in_a, other=0.0)
        b = tl.load(B + columns[None, :] * Kd + inner[:, None], mask=in_b, other=0.0)
        total += tl.dot(a, b)
    in_c = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(C + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=in_c)
"""
VARIANT = '''"""{name}"""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="gemm-{name}",
    entry="tile",
    params={{name: Param(size, choices=(size,)) for name, size in (("BM", 16), ("BN", 16), ("BK", 32))}},
    grid=lambda workload, p: ({rows}, -(-workload.N // p.BN)),
)
'''
GRID = "-(-workload.M // p.BM)"

INLINE = 'tl.inline_asm_elementwise("{}", "=f,f", [total], tl.float32, True, 1).to(tl.bfloat16)'

MISTAKES = {
    # name: (what stands in the kernel, what instead, the line that is named by it, who names it, with which words)
    "stride-order": (
        "rows[:, None] * Kd + inner", "rows[:, None] + M * inner", "tl.store(C", "verify", "was stored at",
    ),
    "missing-mask": (
        "inner[None, :], mask=in_a, other=0.0", "inner[None, :]", "a = tl.load", "verify",
        "reads 2 bytes at byte 1680 of `A`, which has 1680",
    ),
    "mask-not-on-store": (
        "total.to(tl.bfloat16), mask=in_c", "total.to(tl.bfloat16)", "tl.store(C", "verify",
        "writes 2 bytes at byte 1680 of `C`, which has 1680",
    ),
    "grid-one-short": (GRID, "workload.M // p.BM", "tl.store(C", "verify", "no program stores it, at"),
    "sums-in-bf16": (
        "total += tl.dot(a, b)", "total = (total + tl.dot(a, b)).to(tl.bfloat16).to(tl.float32)", "tl.store(C",
        "verify", "was stored at",
    ),
    "shapes-of-dot": ("tl.dot(a, b)", "tl.dot(a, a)", "total += tl.dot", "build", "error"),
    "stale-constexpr": (
        "tl.program_id(1) * BN", "tl.program_id(1) * 8", "tl.store(C", "verify", "no program stores it, at",
    ),
    "race": ("C + rows[:, None] * N", "C + 0 * rows[:, None] * N", "tl.store(C", "verify", "at once"),
    "boundary-of-k": (
        "(rows[:, None] < M) & (inner[None, :] < Kd)", "rows[:, None] < M", "a = tl.load", "verify",
        "of `A`, which has",
    ),
    "numbers-of-inline-ptx": (
        "total.to(tl.bfloat16)", INLINE.format("fma.rn.f32 $0, $1, $1, $1;"), "tl.store(C", "verify", "was stored at",
    ),
    "inline-ptx": (
        "total.to(tl.bfloat16)", INLINE.format("mull.f32 $0, $1, $1;"), "tl.store(C", "build",
        "ptxas: Not a name of any known instruction: 'mull'",
    ),
}  # fmt: skip
RIGHT_PTX = ("total.to(tl.bfloat16)", INLINE.format("add.f32 $0, $1, 0f00000000;"))
LANE_PTX = ("total.to(tl.bfloat16)", INLINE.format("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;"))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    root = tmp_path_factory.mktemp("mistakes")
    (root / "gemm").mkdir()
    before, _, _ = OP.partition("suites=")
    (root / "gemm" / "op.py").write_text(f"{before}{SUITES},\n)\n")
    numerics = REPOSITORY / "tests" / "toys" / "gemm" / "numerics.py"
    (root / "gemm" / "numerics.py").write_text(numerics.read_text())
    changes = {name: (old, new) for name, (old, new, *_) in MISTAKES.items()}
    for name, (old, new) in {"right": ("", ""), "right-ptx": RIGHT_PTX, "lane-ptx": LANE_PTX, **changes}.items():
        rows = new if old == GRID else GRID
        source = KERNEL if old == GRID else KERNEL.replace(old, new, 1)
        assert source != KERNEL or name in {"right", "grid-one-short"}
        write_kernel(root / "gemm" / name.replace("-", "_"), VARIANT.format(name=name, rows=rows), source)
    return load_catalog((root,))


@pytest.fixture(scope="module")
def verified(catalog):
    names = ",".join(sorted(catalog.entries))
    found = verify_variants(
        catalog, "gemm", names, axes="", seed=3, step_limit_s=60, gpu=None, observer=lambda _event: None
    )
    return {case.label: found.checked[case.id] for case in found.cases}


def _line_of(catalog, name, text):
    lines = Path(catalog.entries[f"gemm-{name}"].source).read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_the_kernel_without_a_mistake_is_right(verified):
    assert verified["gemm-right"].status is Status.OK, verified["gemm-right"].reason


@pytest.mark.parametrize("name", MISTAKES)
def test_a_usual_mistake_in_triton_is_named_by_its_line(catalog, verified, name):
    _, _, text, by, words = MISTAKES[name]
    line, verdict = _line_of(catalog, name, text), verified[f"gemm-{name}"]
    assert verdict.status not in {Status.OK, Status.UNSUPPORTED}
    assert (verdict.status is Status.BUILD_FAILED) == (by == "build")
    assert f"kernel.py:{line}" in verdict.reason, verdict.reason
    assert words in verdict.reason, verdict.reason


def test_inline_ptx_that_only_computes_is_interpreted_and_other_is_compiled(catalog, verified):
    assert verified["gemm-right-ptx"].status is Status.OK, verified["gemm-right-ptx"].reason
    line, verdict = _line_of(catalog, "lane-ptx", "inline_asm"), verified["gemm-lane-ptx"]
    assert verdict.status is Status.UNSUPPORTED
    assert f"kernel.py:{line}: inline_asm that reaches memory, other lanes" in verdict.reason
    assert "compiles for sm_90" in verdict.reason
