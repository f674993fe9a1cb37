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


def rows(*body, more="", name="rows"):
    """A kernel's source."""
    return f"\n@triton.jit\ndef {name}(x, y, {more}N: tl.constexpr):\n" + "".join(f"    {line}\n" for line in body)


BN = "BN: tl.constexpr, "
ROW = "row = tl.program_id(0).to(tl.int64)"
COPY = "tl.store(y + at, tl.load(x + at).to(tl.float32))"
FILL = "tl.store(y + row * N + tl.arange(0, N), 1.0)"
GRID = "grid=lambda workload, p: (workload.{},)"
PLACES = {
    "a block that divides every workload needs no mask": (
        rows(ROW, "at = row * N + tl.program_id(1) * BN + tl.arange(0, BN)", COPY, more=BN),
        'params={"BN": Param(default=32, choices=(16, 32, 128))},' + GRID.format("M, workload.N // p.BN"), [],
    ),
    "a choice that a static assert refuses": (
        rows('tl.static_assert(N % BN == 0, "BN divides N")', ROW, "at = row * N + tl.arange(0, BN)", COPY, more=BN),
        'params={"BN": Param(default=128, choices=(128, 256))},' + GRID.format("M"), [],
    ),
    "the number of a program taken apart stays exact": (
        rows(
            "program = tl.program_id(0).to(tl.int64)", "row = program // 4", "part = program - row * 4",
            "at = row * N + part * (N // 4) + tl.arange(0, N // 4)", COPY,
        ),
        GRID.format("M * 4"), [],
    ),
    "a loop counts to its last step": (
        rows(ROW, "for at in range(0, N, 64):", "    tl.store(y + row * N + at + tl.arange(0, 64), 1.0)"), "", [],
    ),
    "a loop that goes on": (
        rows(ROW, "for at in range(0, N + 64, 64):", "    tl.store(y + row * N + at + tl.arange(0, 64), 1.0)"), "",
        [("T1", 8)],
    ),
    "behind an early return or a branch": (
        rows(ROW, "if row >= M:", "    return", FILL, more="M, ")
        + rows(ROW, "if row < M:", f"    {FILL}", more="M, ", name="other"),
        GRID.format("M + 1"), [],
    ),
    "a function of the same file is followed": (
        "\n@triton.jit\ndef place(row, N: tl.constexpr, more=0):\n    return row * N + tl.arange(0, N) + more\n"
        + rows(ROW, "tl.store(y + place(row, N), 1.0)", "tl.store(y + place(row, N, more=1), 1.0)"),
        "", [("T1", 12)],
    ),
    "an offset that is loaded is not guessed": (
        rows("start = tl.load(total).to(tl.int64)", "tl.store(y + start + tl.arange(0, N), 1.0)", more="total, "), "",
        [],
    ),
    "a number that overflows and is no offset": (
        rows("noise = tl.program_id(0) * 1664525", "tl.store(y + tl.program_id(0), (noise % 7).to(tl.float32))"), "",
        [],
    ),
    **{
        f"an offset that overflows as its type does: {offset}": (
            rows(f"at = {offset}", COPY), "", [("T4", 6)] if overflows else [],
        )
        for offset, overflows in {
            "tl.program_id(0) * N": True,
            "tl.program_id(0).to(tl.int64) * N": False,
            "(tl.program_id(0) * N).to(tl.int64)": True,
            "tl.cast(tl.program_id(0), tl.int64) * N": False,
            "tl.program_id(0) * (N * 5000000000)": False,  # the constant has 64 bits itself
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_places_are_followed_as_far_as_they_are_known(bench, name):
    source, declared, found = PLACES[name]
    assert codes(bench.triton(source, *([declared] if declared else []))) == found


def test_one_choice_of_a_param_that_does_not_divide_is_found(bench):
    source = rows("at = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)", COPY, more=BN)
    source = source.replace("tl.load(x + at)", "tl.load(x + at, mask=at < 10)")
    params = 'params={"BN": Param(default=128, choices=(128, 4096))},'
    result = bench.triton(source, params + "grid=lambda workload, p: (-(-workload.M * workload.N // p.BN),)")
    assert codes(result) == [("T1", 7)]
    assert "BN=4096" in result.findings[0].message or "M=7" in result.findings[0].message


@pytest.mark.parametrize("step", ["4", "-4"])
def test_an_access_that_starts_before_the_tensor_is_found(bench, step):
    result = bench.triton(rows(ROW, f"tl.store(y + row * N + tl.arange(0, N) + {step}, 1.0)"))
    assert codes(result) == [("T1", 7)]
    assert ("element -4" in result.findings[0].message) == (step == "-4")


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
