"""A copying floor is measured in the fastest of its forms on the device at hand, under its one name."""

import csv
import io

import pytest
from faults import REPOSITORY, Gdnbench

from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_measurements

pytestmark = pytest.mark.slow

ROOT = REPOSITORY / "tests" / "floor_forms"
SHORT = ("--gpu", "cpu", "--rounds", "3", "--samples", "3", "--margin", "0.9", "-q")
FLOOR = "moves-floor"


@pytest.fixture
def bench(tmp_path):
    return Gdnbench(tmp_path, (ROOT,), in_process=True)


@pytest.fixture
def slow(monkeypatch):
    """Makes forms slow, or wrong, in what is run next."""

    def make(forms, how="SLOW"):
        monkeypatch.setenv(f"MOVES_{how}", forms)

    return make


def run(bench, *options, kernels=f"moves-torch,{FLOOR}"):
    """The folder of a run that is whole."""
    done = bench.run(kernels, "--op", "moves", *SHORT, *options)
    assert done.code == 0, done.err
    return bench.results / done.info["run_id"]


def forms(folder, label=FLOOR):
    """The form of each workload, by N, that the rows, the document and the builds of a run agree on."""
    rows = {row.case.workload.N: row for row in read_measurements(folder) if row.case.label == label}
    assert all(row.timing for row in rows.values())
    told = {n: row.case.variant.params["FORM"] for n, row in rows.items()}
    cases = [case for case in read_info(folder).cases if case["label"] == label and case["role"] != "control"]
    assert {case["shape"]["N"]: case["params"]["FORM"] for case in cases} == told
    return told


def test_the_fastest_form_is_measured_and_stands_in_document_csv_and_json(bench, slow):
    slow("0,1")  # the one that is left is declared for N=128 only
    folder = run(bench)
    assert forms(folder) == {64: 2, 128: 2}
    shown = bench("show", folder.name, "--out", str(bench.results), "--json").document
    assert {row["FORM"] for row in shown["measurements"] if row["label"] == FLOOR} == {2}
    table = csv.DictReader(io.StringIO(bench("show", folder.name, "--out", str(bench.results), "--csv").out))
    assert {row["FORM"] for row in table if row["label"] == FLOOR} == {"2"}


def test_a_form_that_fails_its_check_is_not_measured(bench, slow):
    slow("0")
    slow("1", "WRONG")
    slow("2", "RAISES")
    assert forms(run(bench)) == {64: 0, 128: 0}
