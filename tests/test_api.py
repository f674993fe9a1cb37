"""`gdnbench.compare`, `gdnbench.bench` and the pytest fixture: their results are those of a run."""

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from functions_data import write_files

import gdnbench
from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import UsageError
from gdnbench.launch.numerics import load_numerics
from gdnbench.origin import functions_folder
from gdnbench.workers import supervision

pytest_plugins = ["pytester"]
SHORT = {"rounds": 2, "samples": 3, "gpu": "cpu"}


@pytest.fixture(autouse=True)
def _forked(monkeypatch):
    monkeypatch.setattr("gdnbench.functions.ask.Worker", supervision.Worker)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The module of a user's file, as an import of it gives it."""
    monkeypatch.chdir(write_files(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    spec = importlib.util.spec_from_file_location("mine", "mine.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mine", module)
    spec.loader.exec_module(module)
    module.__file__ = str(tmp_path / "mine.py")
    return module


def test_a_comparison_is_a_stored_run_with_its_table(mine, command_line):
    inputs = {"x": torch.full((4, 8), 3.0), "w": torch.ones(8)}
    functions = {"new": mine.fast, "old": mine.slow, "bad": mine.wrong}
    before = list(sys.argv)
    result = gdnbench.compare(functions, inputs, against="old", **SHORT)
    assert sys.argv == before
    assert {row.case.label: row.status for row in result.rows} == {"new": "ok", "old": "ok", "bad": "wrong-numbers"}
    assert (result["new"].versus.baseline, result["bad"].timing) == ("old", None)
    assert str(result) == command_line("show", result.folder.name, columns="160")[1]
    assert result._repr_html_().startswith("<pre>mine-fp32-")
    with pytest.raises(KeyError):
        result["other"]
    kept = functions_folder().glob(f"*/{result.folder.name.partition('-cpu-')[2]}/op.py")  # of earlier runs, too
    op = max(kept, key=lambda path: path.stat().st_mtime_ns).parent
    declared = load_catalog([op.parent]).ops[op.name]
    given, _ = load_numerics(declared, op).make_inputs(declared.default, 1, "cpu", "typical")
    assert all(torch.equal(given[name], inputs[name]) for name in inputs)  # taken as they are, not drawn


def made_here(x):
    return x


@pytest.mark.parametrize(
    ("functions", "inputs", "against", "why"),
    [
        ({"f": lambda x: x}, {"x": "fp32[4]"}, "", "cannot import .*lambda"),
        ({"f": torch.nn.Linear(2, 2)}, {"x": "fp32[4]"}, "", "cannot import a Linear"),
        ({"f": torch.neg}, {"input": "fp32[4]"}, "", "cannot import"),
        ({"f": made_here}, {"x": "fp32[4]", "y": torch.ones(2)}, "", "some inputs are text"),
        ({"f": made_here}, {"x": "fp32[4]"}, "g", "no function is called 'g'"),
        ({}, {"x": "fp32[4]"}, "", "no function is called"),
    ],
)
def test_what_workers_cannot_import_is_refused_before_anything_is_measured(functions, inputs, against, why):
    with pytest.raises(UsageError, match=why):
        gdnbench.compare(functions, inputs, against=against, **SHORT)


def test_importing_and_naming_them_imports_no_torch():
    code = "import gdnbench, sys; gdnbench.compare, gdnbench.bench; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


MEASURED = """
    import time

    def quick(x):
        return x + 1

    def late(x):
        time.sleep(0.02)
        return x + 1

    def test_slower(no_regression):
        no_regression(late, quick, {"x": "fp32[8]"}, gpu="cpu", rounds=6, samples=2)

    def test_faster(no_regression):
        assert no_regression(quick, late, {"x": "fp32[8]"}, gpu="cpu", rounds=6, samples=2)["new"].versus.speedup > 2

    def test_wrong(no_regression):
        no_regression("torch::neg", "torch::clone", {"input": "fp32[8]"}, gpu="cpu", rounds=2, samples=2)
"""
JUDGED = """
    def test_it(no_regression):
        no_regression(None, None, {})

    def test_it_strictly(no_regression):
        no_regression(None, None, {}, undecided="fail")
"""


def outcomes(pytester, text):
    pytester.makepyfile(text)
    return pytester.runpytest("-p", "no:gdnbench", "-p", "gdnbench.pytest_plugin", "-p", "no:xdist", "-rs")


def test_the_fixture_fails_what_is_slower_or_wrong(pytester):
    result = outcomes(pytester, MEASURED)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        ["*new at x0=8 is 0.*slower, at a margin of 2.00%", "*new at input0=8 is wrong-numbers*"]
    )


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("faster", {"passed": 2}),
        ("same", {"passed": 2}),
        ("slower", {"failed": 2}),
        ("unclear", {"skipped": 1, "failed": 1}),
        (None, {"skipped": 1, "failed": 1}),
    ],
)
def test_the_fixture_says_where_it_cannot_tell(pytester, monkeypatch, verdict, expected):
    case = SimpleNamespace(label="new", workload="x0=8")
    versus = SimpleNamespace(speedup=1.0, low=0.9, high=1.1, verdict=verdict) if verdict else None
    rows = (SimpleNamespace(case=case, status="ok", versus=versus),)
    monkeypatch.setattr(gdnbench, "compare", lambda *_, **__: SimpleNamespace(rows=rows), raising=False)
    outcomes(pytester, JUDGED).assert_outcomes(**expected)
