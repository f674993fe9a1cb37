"""`gdnbench show --errors`: how far each kernel is from the oracle, by what the run kept."""

import pytest
from faults import answer
from run_data import case, measured, store

ROWS = [measured(case("decode-v4"), 4.6), measured(case("decode-v9"), 4.2)]
ERRORS = {
    "decode-v4": {"output roundoff": {"worst": 1.5, "limit": 8.0, "case": "x", "scenario": "typical"}},
    "decode-v9": {
        "output roundoff": {"worst": 0.25, "limit": 8.0, "case": "x", "scenario": "typical"},
        "state roundoff": {"worst": 0.0, "limit": 8.0, "case": "x", "scenario": "typical"},
    },
}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_the_most_accurate_kernel_comes_first(run, tmp_path):
    store(run, ROWS, errors=ERRORS)
    done = answer("show", str(run), "--errors", folder=tmp_path)
    assert done.code == 0, done.err
    lines = done.out.partition("largest errors")[2].splitlines()
    assert [line.split() for line in lines[-2:]] == [["decode-v9", "0.25", "0"], ["decode-v4", "1.5"]]
    assert "largest errors" not in answer("show", str(run), folder=tmp_path).out


def test_of_an_older_run_it_says_that_there_are_none(run, tmp_path):
    store(run, ROWS)
    assert "no errors are stored with this run" in answer("show", str(run), "--errors", folder=tmp_path).out


@pytest.mark.parametrize("format_", ["--json", "--csv"])
def test_it_is_for_tables(run, tmp_path, format_):
    store(run, ROWS, errors=ERRORS)
    done = answer("show", str(run), "--errors", format_, folder=tmp_path)
    assert done.code == 2
    assert "--errors is for tables" in done.err
