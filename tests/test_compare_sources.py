"""What a user names, as sources: each way of naming one, and what is said where there is none."""

import json

import pytest
from committed import RESULTS, results_until
from compare_data import DEFAULT, MAIN, plant

from gdnbench.analyse.sources import load_sources
from gdnbench.errors import RunFormatError, UsageError


def load_source(text, results):
    (source,) = load_sources([text], results)
    return source


@pytest.fixture
def copy(tmp_path):
    return plant(tmp_path / "copy", "decode-v4", 1.0, DEFAULT[0])


@pytest.mark.parametrize(
    "text", [MAIN, MAIN[:15], RESULTS / MAIN, RESULTS / MAIN / "run.json"], ids=["id", "start", "folder", "file"]
)
def test_a_run_by_id_start_and_folder(text):
    assert load_source(str(text), RESULTS).name == MAIN


def test_a_gpu_stands_for_its_latest_run_that_compared_kernels():
    newest = max(path.name for path in RESULTS.glob("2*-h200-*"))
    assert "sweep" not in newest
    assert load_source("h200", RESULTS).name == newest


def test_beside_another_source_it_is_the_latest_that_timed_what_the_other_did(tmp_path):
    results = results_until("20261124-181759-h200-verify-heads", tmp_path)
    one, _ = load_sources(["h200", "published/b200"], results)
    assert one.name == "20261124-172450-h200-decode-round-trip"
    swept, one = load_sources(["sweep-batches", "h200"], results)
    assert swept.name == "20261121-182329-h200-decode-sweep-batches"
    assert one.name == "20261124-173739-h200-decode-try-10"


def test_a_run_of_before_an_axis_was_added_is_at_its_default():
    """`layer` has had its axis BETA only since the first of them."""
    before, after = load_sources(["20261124-172753", "20261125-094047"], RESULTS)
    assert {figure.workload for figure in before.figures} <= {figure.workload for figure in after.figures}
    assert before.noise.keys() <= after.noise.keys()
    assert {figure.workload.BETA for figure in before.figures} == {1}


@pytest.mark.parametrize("text", ["", "nothing.csv", "no/such", "published/none"])
def test_what_is_not_there_is_told(text):
    with pytest.raises(UsageError) as raised:
        load_source(text, RESULTS)
    assert raised.value.hint


def test_a_copy_of_a_run_bears_the_name_it_was_given(copy):
    assert [source.name for source in load_sources([DEFAULT[0], str(copy)], RESULTS)] == [DEFAULT[0], str(copy)]


def test_a_run_that_was_stopped_says_so(copy):
    document = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**document, "complete": False}))
    assert "stopped before its end" in load_source(str(copy), RESULTS).warnings[-1]


def other_version(text):
    return json.dumps({**json.loads(text), "schema": 9})


@pytest.mark.parametrize(
    ("name", "damaged", "told"),
    [
        ("measurements.csv", lambda text: "".join(text.splitlines(keepends=True)[:6]), "cut off"),
        ("rounds.csv", lambda text: text[:4000], "cut off"),
        ("rounds.csv", lambda text: text.replace("time_us", "time_ns", 1), "lacks the column time_us"),
        ("rounds.csv", lambda text: text.replace("nvbench,2,", "nvbench,two,", 1), "line 3, round: Expected `int`"),
        ("run.json", other_version, "schema version 9"),
    ],
)
def test_a_damaged_run_is_told(copy, name, damaged, told):
    (copy / name).write_text(damaged((copy / name).read_text()))
    with pytest.raises(RunFormatError, match=told) as raised:
        load_source(str(copy), RESULTS)
    assert raised.value.hint


def test_a_run_without_its_rounds_is_told(copy):
    (copy / "rounds.csv").unlink()
    with pytest.raises(RunFormatError, match=r"rounds\.csv is missing"):
        load_source(str(copy), RESULTS)
