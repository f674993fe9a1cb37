"""Each rule finds its example and not the one beside it, and none fires on a kernel of the catalog."""

import re
from pathlib import Path

import pytest
from lint_data import SPECIMENS, Bench, codes, lint_specimen

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.lint.check import lint_kernels
from gdnbench.lint.rules import RULES

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "lint.md").read_text()
CODES = [rule.code for rule in RULES]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.mark.parametrize("code", CODES)
def test_a_rule_finds_its_example_and_nothing_else(code):
    result = lint_specimen(f"lint-{code.lower()}-bad")
    assert {finding.code for finding in result.findings} == {code}
    assert all(finding.message and finding.remedy for finding in result.findings)


@pytest.mark.parametrize("code", CODES)
def test_no_rule_fires_where_the_mistake_is_mended(code):
    assert lint_specimen(f"lint-{code.lower()}-good").findings == ()


def test_codes_are_unique():
    assert len(set(CODES)) == len(CODES)


@pytest.mark.slow
def test_no_rule_fires_on_a_kernel_of_the_catalog():
    catalog = load_catalog(default_roots()[:1])
    for op in catalog.ops:
        result = lint_kernels(catalog, [op], "all")
        assert result.findings == ()
        assert result.silenced == 0


@pytest.mark.parametrize("rule", RULES, ids=CODES)
def test_the_page_shows_the_example_that_is_tested(rule):
    section = re.search(rf"^### {rule.code} [^\n]*\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/lint.md has no section {rule.code}"
    example = re.search(r"```(?:python|cpp)\n(.*?)```", section[1], re.DOTALL)[1]
    folder = SPECIMENS / "rows" / f"{rule.code.lower()}_bad"
    tested = "".join(path.read_text() for path in sorted(folder.glob("*.*")))
    assert example in tested
    assert re.search(r"False\s+alarm:", section[1])


def test_a_block_that_divides_every_workload_needs_no_mask(bench):
    source = """
@triton.jit
def rows(x, y, N: tl.constexpr, BN: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = row * N + part * BN + tl.arange(0, BN)
    tl.store(y + at, tl.load(x + at).to(tl.float32))
"""
    params = 'params={"BN": Param(default=32, choices=(16, 32, 128))},'
    assert codes(bench.triton(source, params + "grid=lambda workload, p: (workload.M, workload.N // p.BN)")) == []


def test_one_choice_of_a_param_that_does_not_divide_is_found(bench):
    source = """
@triton.jit
def rows(x, y, N: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    tl.store(y + at, tl.load(x + at, mask=at < 10).to(tl.float32))
"""
    params = 'params={"BN": Param(default=128, choices=(128, 4096))},'
    result = bench.triton(source, params + "grid=lambda workload, p: (-(-workload.M * workload.N // p.BN),)")
    assert codes(result) == [("T1", 7)]
    assert "BN=4096" in result.findings[0].message or "M=7" in result.findings[0].message


def test_a_choice_that_a_static_assert_refuses_is_no_finding(bench):
    source = """
@triton.jit
def rows(x, y, N: tl.constexpr, BN: tl.constexpr):
    tl.static_assert(N % BN == 0, "BN divides N")
    at = tl.program_id(0).to(tl.int64) * N + tl.arange(0, BN)
    tl.store(y + at, tl.load(x + at).to(tl.float32))
"""
    params = 'params={"BN": Param(default=128, choices=(128, 256))},'
    assert codes(bench.triton(source, params + "grid=lambda workload, p: (workload.M,)")) == []


@pytest.mark.parametrize("step", ["4", "-4"])
def test_an_access_that_starts_before_the_tensor_is_found(bench, step):
    source = f"""
@triton.jit
def rows(x, y, N: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N) + {step}
    tl.store(y + at, 1.0)
"""
    result = bench.triton(source)
    assert codes(result) == [("T1", 7)]
    assert ("element -4" in result.findings[0].message) == (step == "-4")


def test_the_number_of_a_program_taken_apart_stays_exact(bench):
    source = """
@triton.jit
def rows(x, y, N: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    row = program // 4
    part = program - row * 4
    at = row * N + part * (N // 4) + tl.arange(0, N // 4)
    tl.store(y + at, tl.load(x + at).to(tl.float32))
"""
    assert codes(bench.triton(source, "grid=lambda workload, p: (workload.M * 4,)")) == []


@pytest.mark.parametrize(("end", "found"), [("N", []), ("N + 64", [("T1", 8)])])
def test_a_loop_counts_to_its_last_step(bench, end, found):
    source = f"""
@triton.jit
def rows(x, y, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for first in range(0, {end}, 64):
        tl.store(y + row * N + first + tl.arange(0, 64), 1.0)
"""
    assert codes(bench.triton(source)) == found


def test_what_stands_behind_a_branch_or_an_early_return_may_be_guarded(bench):
    source = """
@triton.jit
def rows(x, y, M, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if row >= M:
        return
    tl.store(y + row * N + tl.arange(0, N), 1.0)


@triton.jit
def other(y, M, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if row < M:
        tl.store(y + row * N + tl.arange(0, N), 1.0)
"""
    assert codes(bench.triton(source, "grid=lambda workload, p: (workload.M + 1,)")) == []


def test_a_function_of_the_same_file_is_followed(bench):
    source = """
@triton.jit
def place(row, N: tl.constexpr, more=0):
    return row * N + tl.arange(0, N) + more


@triton.jit
def rows(x, y, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    tl.store(y + place(row, N), 1.0)
    tl.store(y + place(row, N, more=1), 1.0)
"""
    assert codes(bench.triton(source)) == [("T1", 13)]


def test_offsets_that_are_loaded_are_not_guessed(bench):
    source = """
@triton.jit
def rows(x, y, total, N: tl.constexpr):
    start = tl.load(total).to(tl.int64)
    tl.store(y + start + tl.arange(0, N), 1.0)
"""
    assert codes(bench.triton(source)) == []


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        ("tl.program_id(0) * N", True),
        ("tl.program_id(0).to(tl.int64) * N", False),
        ("(tl.program_id(0) * N).to(tl.int64)", True),
        ("tl.cast(tl.program_id(0), tl.int64) * N", False),
        ("tl.program_id(0) * (N * 5000000000)", False),  # the constant has 64 bits itself
    ],
)
def test_an_offset_overflows_where_its_type_ends(bench, offset, found):
    source = f"""
@triton.jit
def rows(x, y, N: tl.constexpr):
    at = {offset}
    tl.store(y + at, tl.load(x + at).to(tl.float32))
"""
    assert codes(bench.triton(source)) == ([("T4", 6)] if found else [])


def test_a_number_that_overflows_and_is_no_offset_is_no_finding(bench):
    source = """
@triton.jit
def rows(x, y, N: tl.constexpr):
    noise = tl.program_id(0) * 1664525
    tl.store(y + tl.program_id(0), (noise % 7).to(tl.float32))
"""
    assert codes(bench.triton(source)) == []


@pytest.mark.parametrize(
    "statement",
    [
        "v = 10 ** 10 ** 10",
        "v = 'a' * 10 ** 12",
        "v = [tl.arange(0, N) for _ in range(3)]",
        "v = rows(x, y, N)",
        "while True:\n        v = tl.load(x)\n        break",
        "for _ in range(0, N, 0):\n        pass",
        "v = tl.arange(4, 0)\n    u = tl.arange(0)\n    w = tl.program_id(axis=9)",
        "v = x[0][None, :, 3]\n    v.shape[9]\n    v = x.dtype.element_ty",
        "del x\n    assert N\n    global q\n    q = 1\n    match N:\n        case 1:\n            v = 2",
    ],
)
def test_a_strange_statement_stops_nothing(bench, statement):
    source = f"""
@triton.jit
def rows(x, y, N: tl.constexpr):
    {statement}


@triton.jit
def sums(x, total, N: tl.constexpr):
    at = tl.program_id(0) * N
    tl.store(total, tl.sum(tl.load(x + at)))
"""
    launch = "TritonLaunch(entry={!r}, grid=lambda workload, p: (workload.M,))"
    declared = f"launches=({launch.format('rows')}, {launch.format('sums')})"
    assert ("T4", source.count("\n") + 1) in codes(bench.triton(source, declared))
