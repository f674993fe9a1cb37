"""The page of claims says of each what stored runs, the ledger and machine code say."""

import csv
import gzip
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
    """The cells of each row of the tables below a heading, without their heads."""
    tables = re.findall(r"^\|-.*\n((?:\|.*\n)+)", section(heading) + "\n", re.MULTILINE)
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in "".join(tables).splitlines()]


@cache
def times_of(run, timer="nvbench", column="time_us", batch="1"):
    [path] = (EVIDENCE / run).glob("measurements.csv*")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return {
            row["label"]: float(row[column])
            for row in csv.DictReader(file)
            if (row["B"], row["timer"], row["status"]) == (batch, timer, "ok") and row["role"] != "control"
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
    times = times_of(RUNS[gpu])
    ratio = times[against] / times[kernel]
    assert float(said.rstrip("x")) == pytest.approx(ratio, abs=0.002)
    assert outcome == ("confirmed" if is_as_expected(ratio, expected) else "refuted")


@pytest.mark.parametrize("row", rows("The host's time, blocks, and batch 64"), ids=lambda row: row[0])
def test_a_time_is_that_of_the_run(row):
    kernel, *said = row
    small, large = re.findall(r"`(\d{8}-[^`]+)`", section("The host's time, blocks, and batch 64"))[:2]
    of_host, of_kernel = {"column": "cpu_time_us"}, {"timer": "cupti"}
    run, batch = (large, "64") if kernel.startswith("decode-rungs") else (small, "1")
    columns = (of_host, {}) if kernel.startswith("decode-launched") else ({}, of_kernel)
    for text, column in zip(said, columns, strict=True):
        digits = len(text.partition(".")[2])
        assert float(text) == pytest.approx(times_of(run, batch=batch, **column)[kernel], abs=0.51 * 10**-digits)
