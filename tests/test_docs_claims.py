"""The page of claims says of each what stored runs, the ledger and machine code say."""

import csv
import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks.claims import LEDGER, table

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "results" / "evidence"
PAGE = (ROOT / "docs" / "claims.md").read_text()
RUNS = {gpu: re.search(rf"{gpu}: `([^`]+)`", PAGE)[1] for gpu in ("H100", "H200")}
BOUND = {
    "above": lambda ratio, low: ratio > low,
    "below": lambda ratio, high: ratio < high,
    "at most": lambda ratio, high: ratio <= high,
}


def section(heading):
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def rows(heading):
    """The cells of each row of the table below a heading."""
    lines = [line for line in section(heading).splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[1:]]


@cache
def stream_times(run):
    with (EVIDENCE / run / "measurements.csv").open() as file:
        return {
            row["label"]: float(row["time_us"])
            for row in csv.DictReader(file)
            if (row["B"], row["timer"], row["status"]) == ("1", "nvbench", "ok") and row["role"] != "control"
        }


def is_as_expected(ratio, expected):
    if between := re.fullmatch(r"([\d.]+) to ([\d.]+)", expected):
        return float(between[1]) <= ratio <= float(between[2])
    word, _, bound = expected.rpartition(" ")
    return BOUND[word](ratio, float(bound))


def test_every_run_that_is_named_is_there():
    named = set(re.findall(r"\b\d{8}-\d{6}-[a-z0-9-]+", PAGE))
    assert len(named) > 5
    assert {name for name in named if not (EVIDENCE / name / "run.json").is_file()} == set()


def test_the_rungs_table_is_that_of_the_ledger():
    assert "\n".join(table(LEDGER)) in section("Rungs: one change each")


@pytest.mark.parametrize("row", rows("By kernels of the ladder"), ids=lambda row: row[1])
@pytest.mark.parametrize("gpu", RUNS)
def test_a_ratio_and_its_outcome_are_those_of_the_run(row, gpu):
    _, pair, expected, *outcomes, _ = row
    said, outcome = outcomes[list(RUNS).index(gpu)].split()
    kernel, against = pair.split(" / ")
    times = stream_times(RUNS[gpu])
    ratio = times[against] / times[kernel]
    assert float(said.rstrip("x")) == pytest.approx(ratio, abs=0.002)
    assert outcome == ("confirmed" if is_as_expected(ratio, expected) else "refuted")
