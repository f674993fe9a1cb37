import json
import math
from dataclasses import fields
from pathlib import Path

import pytest
from committed import RESULTS
from run_data import case, info

from gdnbench.errors import RunFormatError
from gdnbench.model.status import GateResult, Status, WrongElements
from gdnbench.store.info import (
    SCHEMA_VERSION,
    RunInfo,
    failed_gates,
    largest_errors,
    passed_gates,
    read_info,
    write_info,
)


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
