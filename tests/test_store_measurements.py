"""`measurements.csv` and `run.json`: what is written comes back, and nothing from a damaged file."""

import csv
import json
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
from committed import RESULTS
from decode_workloads import decode_at
from run_data import case, failed, info, measured, timing, versus

from gdnbench.errors import RunFormatError
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import GateResult, Role, Status, WrongElements
from gdnbench.store.files import write_table
from gdnbench.store.info import (
    SCHEMA_VERSION,
    RunInfo,
    failed_gates,
    largest_errors,
    passed_gates,
    read_info,
    write_info,
)
from gdnbench.store.measurements import read_clocks, read_measurements, write_measurements

NAME = "measurements.csv"
NASTY = "line 1: error, \"quoted\"\n  line 2: 'ünïcödé' → 100 %; \ttab\n\nlast, line"
INTENDED = [
    measured(case("decode-fla", Role.BASELINE)),
    measured(case("decode-fla", Role.CONTROL), against=versus(1.0003, "same")),
    measured(case("decode-v4b", preset="decode-v4b", kernel="decode-v4", WARPS=4), 3.5, versus(), registers=32),
    measured(case("decode-triton:BV=16", BV=16, WARPS=8, MODE="fast"), 5.25, versus(0.7, "slower"), spill_bytes=0),
    measured(
        case("decode-v1", BV=8),
        against=versus(1.0, "unclear", low=0.0, high=math.inf, more_rounds=17),
        warnings=("3 of 21 rounds below 97% of the run's median clock", "interval of ±2.0%, ünïcödé, \"quoted\""),
    ),
    measured(case("decode-floor-copy", Role.FLOOR, decode_at(B=64, HQ=16, HV=32, K=64, V=32), WARPS=8)),
    failed(case("decode-v7", Role.KERNEL), Status.BUILD_FAILED, NASTY),
    failed(case("decode-na"), Status.MISSING, "NA"),
    failed(case("decode-nan"), Status.FAILED, "nan"),
    failed(case("decode-spaces"), Status.FAILED, "  spaces  "),
]  # fmt: skip


def _write(folder, rows):
    write_info(folder, info())
    write_measurements(folder, info(), rows)


@pytest.fixture
def stored(tmp_path):
    _write(tmp_path, INTENDED)
    return tmp_path


def _words(record):
    return {name: value for name, value in vars(record).items() if not isinstance(value, float)}


def _numbers(record):
    return {name: value for name, value in vars(record).items() if isinstance(value, float)}


def rows_of(folder):
    with (folder / NAME).open(newline="") as file:
        return list(csv.DictReader(file))


def test_everything_but_times_comes_back_exactly(stored):
    def told(row):
        return replace(row, timing=None, versus=None)

    assert [told(row) for row in read_measurements(stored)] == [told(row) for row in INTENDED]


def test_times_come_back_to_six_digits(stored):
    for found, expected in zip(read_measurements(stored), INTENDED, strict=True):
        for part in ("timing", "versus"):
            left, right = getattr(found, part), getattr(expected, part)
            assert (left is None) == (right is None)
            if right:
                assert _words(left) == _words(right)
                assert _numbers(left) == pytest.approx(_numbers(right), rel=1e-5, nan_ok=True)


def test_cells_are_short_whole_numbers_whole_and_no_text_ends_a_row(tmp_path):
    rows = [
        {"n": 1054816, "x": 1234567.0, "m": 2.0, "t": "a\r\nb,c\r", "ok": True, "i": math.inf},
        {"n": None, "x": 1.5, "m": math.nan, "t": None, "ok": False, "i": 1},
    ]
    write_table(tmp_path / "t.csv", rows, ["n", "x", "m", "t", "ok", "i", "gone"])
    assert (tmp_path / "t.csv").read_bytes().decode() == (
        'n,x,m,t,ok,i,gone\n1054816,1.23457e+06,2,"a\nb,c\n",True,inf,\n,1.5,,,False,1,\n'
    )


def test_what_is_not_known_is_an_empty_cell_and_comes_back_as_unknown(tmp_path):
    unknown = timing(cpu_time_us=math.nan, sm_mhz=math.nan, sol=math.nan)
    _write(tmp_path, [Measurement(case=case("decode-x"), status=Status.OK, timing=unknown)])
    (row,) = rows_of(tmp_path)
    assert {row[name] for name in ("cpu_time_us", "sm_mhz", "sol", "registers", "spill_bytes", "verdict")} == {""}
    (found,) = read_measurements(tmp_path)
    assert math.isnan(found.timing.sol)
    assert (found.registers, found.versus) == (-1, None)


@pytest.mark.parametrize("reason", ["a\rb", "a\r\nb", "\n", '"', ",", "=1+1", "null", "#", "\u2028", "0012"])
def test_every_reason_comes_back(tmp_path, reason):
    rows = [failed(case("decode-x"), reason=reason), failed(case("decode-y"))]
    _write(tmp_path, rows)
    first, second = read_measurements(tmp_path)
    assert first.reason == reason.replace("\r\n", "\n").replace("\r", "\n")
    assert second == rows[1]


def test_a_file_cut_off_anywhere_gives_an_error_or_whole_rows(stored):
    path = stored / NAME
    whole, rows = path.read_bytes(), read_measurements(stored)
    for size in range(0, len(whole), 13):
        path.write_bytes(whole[:size])
        try:
            found = read_measurements(stored)
        except RunFormatError as error:
            assert NAME in error.message
            assert error.hint
        else:
            assert [row.case for row in found] == [row.case for row in rows[: len(found)]]
            assert [row.status for row in found] == [row.status for row in rows[: len(found)]]


DAMAGES = {
    "another heading": (",verdict,", ",opinion,", ""),
    "a heading that is missing": ("run_id", "run", ""),
    "an unknown status": (",build-failed,", ",exploded,", "line 8"),
    "a cell more": (",nvbench,", ",nvbench,many,", "line 2"),
    "no number": (",3.5,", ",fast,", "line 4"),
    "a time beside a failure": (",ok,", ",crashed,", "line 2"),
    "an unknown role": (",floor,", ",ceiling,", "line 7"),
    **{
        f"a workload of {axes}": (",64,16,32,64,32,", f",{axes},", "line 7")
        for axes in ("0,16,32,64,32", "64,16,33,64,32", ",16,32,64,32", "64.5,16,32,64,32")
    },
    "a failure without a reason": ("  spaces  ", "", "line 11"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_its_line_and_never_believed(stored, damage):
    old, new, line = DAMAGES[damage]
    text = (stored / NAME).read_text()
    assert old in text
    (stored / NAME).write_text(text.replace(old, new, 1))
    with pytest.raises(RunFormatError, match=NAME) as caught:
        read_measurements(stored)
    assert line in caught.value.message
    assert caught.value.hint


def test_a_file_that_is_gone_is_named(stored):
    (stored / NAME).unlink()
    with pytest.raises(RunFormatError, match=f"{NAME} is missing"):
        read_measurements(stored)


def test_a_further_clocks_rows_are_kept_apart(tmp_path):
    def by_cupti(row):
        return replace(row, clock="cupti", timing=replace(row.timing, timer="cupti") if row.timing else None)

    further = [by_cupti(row) for row in INTENDED[:7]]
    _write(tmp_path, [*INTENDED, *further])
    assert [row.case for row in read_measurements(tmp_path)] == [row.case for row in INTENDED]
    ((clock, found),) = read_clocks(tmp_path).items()
    assert clock == "cupti"
    assert [(row.case, row.status, row.reason) for row in found] == [
        (row.case, row.status, row.reason) for row in INTENDED[:7]
    ]
    assert [bool(row.timing) for row in found] == [True] * 6 + [False]
    assert rows_of(tmp_path)[-1]["timer"] == "cupti"


def test_what_is_written_comes_back(tmp_path):
    written = info(
        label="ünïcödé, 'quoted'",
        cases=[case("decode-v4", WARPS=8).to_dict()],
        sources={"decode-v4": "abc"},
        warnings=["one\ntwo"],
    )
    write_info(tmp_path, written)
    assert read_info(tmp_path) == written


def passed(gate, worst, scenario="typical"):
    return GateResult(gate, scenario, worst, 1.0, "[0, 3]", Status.OK)


WRONG = GateResult(
    "output", "zero-b", math.inf, 1.0, "[1, 2]", Status.WRONG_NUMBERS, WrongElements(3, 8, math.nan, 0.5, "B 1 of 2")
)
FOUND = {
    "a/1": (passed("output", 0.25), passed("state", 0.0), passed("output", 0.75, "large-state")),
    "b/1": (passed("output", 0.5), WRONG, passed("state", 0.0)),
    "c/1": (),
}


def test_of_the_gates_those_that_failed_are_kept_whole_and_no_others(tmp_path):
    failed = failed_gates(FOUND)
    assert list(failed) == ["b/1"]
    assert failed["b/1"][0]["wrong"]["count"] == 3
    write_info(tmp_path, info(gates=failed))
    ((gate,),) = read_info(tmp_path).gates.values()
    assert (gate["gate"], gate["worst"], gate["wrong"]["got"]) == ("output", "inf", "nan")


def test_of_the_gates_that_were_passed_their_count_and_the_worst_of_each_are_kept(tmp_path):
    write_info(tmp_path, info(gates_passed=passed_gates(FOUND)))
    assert read_info(tmp_path).gates_passed == {
        "output": {"count": 3, "worst": 0.75, "limit": 1.0, "case": "a/1", "scenario": "large-state"},
        "state": {"count": 2, "worst": 0.0, "limit": 1.0, "case": "a/1", "scenario": "typical"},
    }


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the checkout's results are not here")
def test_the_first_runs_list_every_gate_that_was_passed():
    written = read_info(RESULTS / "20261122-024409-h200-decode-ablation")
    gates = [gate for gates in written.gates.values() for gate in gates]
    assert len(gates) == 34
    assert {gate["status"] for gate in gates} == {Status.OK}
    assert written.gates_passed == {}


def test_a_run_of_a_later_version_is_refused_with_its_version(tmp_path):
    write_info(tmp_path, info(schema=SCHEMA_VERSION + 1))
    with pytest.raises(RunFormatError, match=f"version {SCHEMA_VERSION + 1}") as caught:
        read_info(tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["run_id", "timestamp", "complete", "gpu", "op", "command"])
def test_a_field_that_is_missing_is_named(tmp_path, name):
    write_info(tmp_path, info())
    document = json.loads((tmp_path / "run.json").read_text())
    del document[name]
    for text, told in (
        (json.dumps(document), name),
        ("[]", "Expected `object`, got `array`"),
        ('{"schema', "truncated"),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(RunFormatError, match=told):
            read_info(tmp_path)


def test_a_field_that_is_not_known_is_passed_over(tmp_path):
    write_info(tmp_path, info())
    document = json.loads((tmp_path / "run.json").read_text()) | {"colour": "red"}
    assert "colour" not in {field.name for field in fields(RunInfo)}
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert read_info(tmp_path) == info()


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    write_info(tmp_path, info(label="before"))

    def full_disk(self, text, *_more, **_options):
        with self.open("w") as file:
            file.write(text[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_info(tmp_path, info(label="after"))
    assert read_info(tmp_path).label == "before"


LABELS = {"a/1": "a", "a/8": "a", "b/1": "b", "c/1": "c"}
WIDER = {
    **FOUND,
    "a/8": (passed("output", 0.8, "zero-b"), passed("state", 0.0)),
    "a/1@again": (passed("output", 0.99),),
}


def test_each_kernels_largest_error_is_kept_by_gate(tmp_path):
    errors = largest_errors(WIDER, LABELS)
    write_info(tmp_path, info(errors=errors))
    assert read_info(tmp_path).errors == {
        "a": {
            "output": {"worst": 0.8, "limit": 1.0, "case": "a/8", "scenario": "zero-b"},
            "state": {"worst": 0.0, "limit": 1.0, "case": "a/1", "scenario": "typical"},
        },
        "b": {
            "output": {"worst": 0.5, "limit": 1.0, "case": "b/1", "scenario": "typical"},
            "state": {"worst": 0.0, "limit": 1.0, "case": "b/1", "scenario": "typical"},
        },
    }
