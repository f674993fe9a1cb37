"""A calibration on disk, what it sums up to, and which one speaks for a machine."""

import json
from dataclasses import replace

import pytest
from calibration_data import calibration, equal, planted

from gdnbench.errors import RunFormatError
from gdnbench.store.calibration import calibration_path, in_words, last_calibration, read_calibration, write_calibration


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return calibration_path("rack-1", "h200")


def test_what_is_written_is_read_again(path):
    write_calibration(path, calibration())
    assert read_calibration(path) == calibration()
    assert last_calibration("rack-1", "h200") == calibration()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_each_host_and_gpu_model_has_its_own(path):
    write_calibration(path, calibration())
    assert last_calibration("rack-2", "h200") is None
    assert last_calibration("rack-1", "h100") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "calibration"),
        ("{", "calibration"),
        ("[]", "calibration"),
        (json.dumps({"schema": 2}), "is of schema version 2; this gdnbench reads 1"),
        (json.dumps({"schema": 1}), "missing required field"),
    ],
)
def test_what_is_no_calibration_is_refused_with_what_to_do(path, text, told):
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(RunFormatError, match=told) as caught:
        last_calibration("rack-1", "h200")
    assert "gdnbench doctor --calibrate" in caught.value.hint


def test_all_workloads_together_weigh_by_their_comparisons():
    rates = [equal(comparisons=10, claims=2, covered=5, rms_z=2.0), equal(comparisons=30, rms_z=1.0)]
    total = calibration(equal=rates).all_equal
    assert (total.comparisons, total.claims, total.covered) == (40, 2, 28)
    assert total.rms_z == pytest.approx((70 / 40) ** 0.5)
    assert calibration(equal=[]).all_equal.comparisons == 0


def test_the_smallest_slowdown_found_is_the_first_that_every_workload_finds():
    found = calibration(planted=[planted(0.02, 6), planted(0.01, 6, slowdown=0.012), planted(0.003, 0)])
    assert found.smallest_found == 0.012
    one_misses = replace(found, planted=[*found.planted, planted(0.01, 5, workload="B=64 qk4_v8")])
    assert one_misses.smallest_found == pytest.approx(0.022)


@pytest.mark.parametrize(("found", "of", "counts"), [(19, 20, True), (18, 20, False), (0, 0, False)])
def test_a_slowdown_counts_as_found_from_95_percent_on(found, of, counts):
    rates = planted(0.01, found, comparisons=of)
    assert (calibration(planted=[rates]).smallest_found is not None) == counts


def test_in_words_it_names_the_date_the_false_claims_and_the_slowdown():
    told = in_words(calibration().summary)
    assert told == "2026-11-22: 1 of 48 equal kernels called FASTER or SLOWER, a slowdown of 1.1% found in 95%"
    assert "no planted slowdown found" in in_words(calibration(planted=[]).summary)
