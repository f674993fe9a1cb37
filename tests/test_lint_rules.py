"""The rule finds its example and not the one beside it, and nothing in a kernel of the catalog."""

import re
from pathlib import Path

import pytest
from bundled import CATALOG
from lint_data import SPECIMENS, Bench, lines_of, lint_specimen

from gdnbench.lint.check import CODE, lint_kernels

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "lint.md").read_text()


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_it_finds_its_example_and_nothing_where_the_mistake_is_mended():
    (finding,) = lint_specimen("lint-t10-bad").findings
    assert (finding.code, finding.place.line, finding.place.column) == (CODE, 12, 29)
    assert "store in line 10 of a loop of num_stages=3" in finding.message
    assert lint_specimen("lint-t10-good").findings == ()


def test_nothing_is_found_in_a_kernel_of_the_catalog():
    result = [lint_kernels(CATALOG, [op], "all") for op in CATALOG.ops]
    assert sum(len(each.files) for each in result) > 10
    assert not any(each.findings or each.silenced for each in result)


def test_the_page_shows_the_example_that_is_tested():
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    assert example in (SPECIMENS / "rows" / "t10_bad" / "kernel.py").read_text()


def loop(*body, stages="num_stages=3", before=()):
    """A kernel's source, whose loop has `body`."""
    return (
        "\n@triton.jit\ndef rows(x, y, total, STAGES: tl.constexpr, N: tl.constexpr):\n"
        + "".join(f"    {line}\n" for line in ("at = tl.program_id(0) * N + tl.arange(0, 32)", *before))
        + f"    for first in tl.range(0, N, 32, {stages}):\n"
        + "".join(f"        {line}\n" for line in body)
    )


STORE = "tl.store(y + at + first, 1.0)"
LOAD = "tl.store(total + first, tl.load(y + first))"
HELPERS = (
    "\n@triton.jit\ndef put(to, at):\n    tl.store(to + at, 1.0)\n"
    "\n@triton.jit\ndef place(of, at, more=0):\n    here = of + at\n    return here + more\n"
)
SOURCES = {
    "a load behind the store": (loop(STORE, LOAD), [9]),
    "a load in front of it": (loop(LOAD, STORE), []),
    "within the store itself": (loop("tl.store(y + at, tl.load(y + at) + 1.0)"), []),
    "another tensor": (loop(STORE, "tl.store(total + first, tl.load(x + first))"), []),
    "one stage": (loop(STORE, LOAD, stages="num_stages=1"), []),
    "no stages": (loop(STORE, LOAD, stages="warp_specialize=True"), []),
    "as many stages as a param has at most": (loop(STORE, LOAD, stages="num_stages=STAGES"), [9]),
    "stages that are not known": (loop(STORE, LOAD, stages="num_stages=N"), []),
    "by a name of the pointer": (loop("out = y + at", "out += first", "tl.store(out, 1.0)", LOAD), [11]),
    "a name that is another tensor by then": (loop("out = y + at", "out = x + at", "tl.store(out, 1.0)", LOAD), []),
    "in a branch": (loop("if first > 0:", f"    {STORE}", "else:", f"    {LOAD}"), [11]),
    "a store in front of the loop": (loop(LOAD, before=(STORE.replace(" + first", ""),)), []),
    "a store in an inner loop": (loop("for i in range(4):", f"    {STORE}", LOAD), [10]),
    "a loaded number points nowhere": (loop("at = tl.load(y + first)", "tl.store(x + at, 1.0)", LOAD), []),
    "a function of the file stores": (HELPERS + loop("put(y, at)", LOAD), [18]),
    "a function of the file makes the pointer": (
        HELPERS + loop("tl.store(place(y, at, more=first), 1.0)", "tl.load(place(of=y, at=at))"), [18],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_accesses_are_followed_in_the_order_of_the_source(bench, name):
    source, lines = SOURCES[name]
    assert lines_of(bench.triton(source)) == lines


@pytest.mark.parametrize(
    "statement",
    [
        "v = [tl.arange(0, N) for _ in range(3)]",
        "v = rows(x, y, total, STAGES, N)",
        "while True:\n            v = tl.load(x)\n            break",
        "v = x[0][None, :, 3]\n        v.shape[9]\n        u, *w = v.T, x, lambda: y",
        "del x\n        assert N\n        global q\n        match N:\n            case 1:\n                v = 2",
        "tl.store()\n        tl.load(*[y])\n        tl.load(pointer=y)",
    ],
)
def test_a_strange_statement_stops_nothing(bench, statement):
    source = loop(statement, STORE, LOAD)
    assert source.count("\n") + 2 in lines_of(bench.triton(source))
