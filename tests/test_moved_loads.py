"""Loads that Triton may issue before a store: found in the example, not beside it, nor in a kernel of the catalog."""

import re
import shutil
from pathlib import Path

import pytest
from bundled import CATALOG

from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.kernel import TritonKernel
from gdnbench.verify.moved_loads import moved_loads

SPECIMENS = Path(__file__).parent / "specimens" / "moved"
PAGE = (Path(__file__).resolve().parents[1] / "docs" / "interpreting.md").read_text()
DECLARED = """from gdnbench import Param, TritonKernel
kernel = TritonKernel(
    name="test-source", entry="rows", params={"STAGES": Param(default=1, choices=(1, 2))}, grid=lambda workload, p: (1,)
)
"""


@pytest.fixture
def lines_of(tmp_path):
    """Gives the lines that are found in a source of Triton functions, of which `rows` is the kernel's."""

    def find(source):
        folder = tmp_path / "kernels" / "rows" / "mine"
        folder.mkdir(parents=True)
        for name in ("op.py", "numerics.py"):
            shutil.copy(SPECIMENS / "rows" / name, folder.parent)
        (folder / "kernel.py").write_text(f"import triton\nimport triton.language as tl\n{source}")
        (folder / "variant.py").write_text(DECLARED)
        found = moved_loads(load_catalog([tmp_path / "kernels"]), "test-source")
        return [int(each.split(":")[1]) for each in found]

    return find


def test_the_example_is_found_and_nothing_where_the_mistake_is_mended():
    catalog = load_catalog([SPECIMENS])
    (found,) = moved_loads(catalog, "rows-moved")
    assert found.startswith("kernel.py:12: the load of y follows its store in line 10 of a loop of num_stages=3")
    assert moved_loads(catalog, "rows-kept") == ()


def test_nothing_is_found_in_a_kernel_of_the_catalog():
    names = [name for name, entry in CATALOG.entries.items() if isinstance(entry.kernel, TritonKernel)]
    assert len(names) > 10
    assert not any(moved_loads(CATALOG, name) for name in names)


def test_the_page_shows_the_example_that_is_tested():
    example = re.search(r"```python\n(.*?)```", PAGE[PAGE.index("### Loads that may move") :], re.DOTALL)[1]
    assert example in (SPECIMENS / "rows" / "moved" / "kernel.py").read_text()


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("", False),
        ("  # gdnbench: loads in order: it is small", True),
        ("  # noqa: E501  # gdnbench:loads in order, zeros", True),
        ("  # gdnbench: loads in order", False),
        ("  # gdnbench: loads in order --", False),
        ("\n        # gdnbench: loads in order: of the line above", False),
    ],
)
def test_a_comment_that_says_why_silences_its_line(lines_of, comment, silenced):
    assert bool(lines_of(loop(STORE, f"{LOAD}{comment}"))) != silenced


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
def test_accesses_are_followed_in_the_order_of_the_source(lines_of, name):
    source, lines = SOURCES[name]
    assert lines_of(source) == lines


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
def test_a_strange_statement_stops_nothing(lines_of, statement):
    source = loop(statement, STORE, LOAD)
    assert source.count("\n") + 2 in lines_of(source)
