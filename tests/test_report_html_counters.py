"""The counters of a report: of the code that a run timed, told where they are of another, and damaged ones left out."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from report_data import HOSTILE, Elements, store_run

from gdnbench.errors import ExitCode
from gdnbench.profile.ncu.store import read_profiles, write_profiles
from gdnbench.report.html.report import write_report

RECORDED = Path(__file__).parent / "data" / "ncu"
OWN, OTHER = "0123456789abcdef", "fedcba9876543210"
RUN = "20260102-030405-h200-decode-main"


@pytest.fixture
def profiles(tmp_path):
    return tmp_path / "profiles"


def profile(profiles, day, source, label="decode-k1", recorded="decode-v4-B1"):
    folder = profiles / "ncu" / label
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"202601{day:02}-030405-h200-B1-qk4_v8.csv"
    found = read_profiles(RECORDED / f"{recorded}.csv.gz")
    write_profiles(path, [replace(one, label=label, source=source) for one in found])
    return path


def shown(tmp_path, profiles, *folders):
    output = tmp_path / "made.html"
    written = write_report(folders, [], output, profiles=profiles)
    seen = Elements(output.read_text(encoding="utf-8")).seen
    return seen.partition("Counters of single launches")[2].partition("Provenance")[0], seen, written


def test_counters_of_the_code_that_was_timed_need_no_word(tmp_path, profiles):
    run = store_run(tmp_path, samples=False, sources={"decode-k1": OWN})
    profile(profiles, 2, OWN)
    counters, _, written = shown(tmp_path, profiles, run)
    assert "block, threads 256" in counters
    assert "was profiled when" not in counters
    assert written.warnings == ()


def test_counters_of_other_code_are_told_below_the_table(tmp_path, profiles):
    run = store_run(tmp_path, samples=False, sources={"decode-k1": OWN})
    profile(profiles, 2, OTHER)
    counters, _, _ = shown(tmp_path, profiles, run)
    assert "block, threads 256" in counters
    assert f"decode-k1 was profiled when its code was other than that which {RUN} timed" in counters


def test_the_profile_of_the_code_that_was_timed_wins_over_a_newer_one(tmp_path, profiles):
    run = store_run(tmp_path, samples=False, sources={"decode-k1": OWN})
    profile(profiles, 2, OWN, recorded="decode-v1-B1")
    profile(profiles, 3, OTHER, recorded="decode-v4-B1")
    counters, _, _ = shown(tmp_path, profiles, run)
    assert "block, threads 32 " in counters
    assert "was profiled when" not in counters


def test_two_runs_of_two_codes_have_a_profile_each(tmp_path, profiles):
    former = store_run(tmp_path, samples=False, sources={"decode-k1": OTHER})
    later = store_run(tmp_path, "20260105-000000-h200-decode", samples=False, sources={"decode-k1": OWN})
    profile(profiles, 2, OTHER, recorded="decode-v1-B1")
    profile(profiles, 3, OWN, recorded="decode-v4-B1")
    counters, _, _ = shown(tmp_path, profiles, former, later)
    assert "block, threads 32 256" in counters
    assert "was profiled when" not in counters


@pytest.mark.parametrize(("stored", "timed"), [("", OWN), (OWN, ""), ("", "")])
def test_where_a_hash_is_missing_nothing_is_said(tmp_path, profiles, stored, timed):
    run = store_run(tmp_path, samples=False, sources={"decode-k1": timed} if timed else {})
    profile(profiles, 2, stored)
    counters, _, _ = shown(tmp_path, profiles, run)
    assert "block, threads 256" in counters
    assert "was profiled when" not in counters


def cut(path):
    path.write_bytes(path.read_bytes()[:-50])


def fold(path):
    path.unlink()
    path.mkdir()


def poison(path):
    path.write_text(path.read_text().replace(OWN, HOSTILE))


@pytest.mark.parametrize("spoil", [cut, fold, poison])
def test_a_damaged_profile_is_left_out_with_a_warning_and_the_one_before_is_shown(tmp_path, profiles, spoil):
    run = store_run(tmp_path, samples=False, sources={"decode-k1": OWN})
    profile(profiles, 2, OWN, recorded="decode-v1-B1")
    newest = profile(profiles, 3, OWN)
    spoil(newest)
    counters, seen, written = shown(tmp_path, profiles, run)
    assert "block, threads 32 " in counters
    [warning] = written.warnings
    assert newest.name in warning
    assert " ".join(warning.split()) in seen


def test_the_command_tells_what_is_left_out(command_line, tmp_path, monkeypatch, profiles):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    store_run(tmp_path / "results", samples=False, sources={"decode-k1": OWN})
    newest = profile(profiles, 3, OWN)
    run = partial(command_line, "report", "--profiles", profiles)
    assert run()[2] == ""
    cut(newest)
    code, out, err = run(columns="300")
    assert code == ExitCode.OK
    assert f"warning: a profile is left out: {newest} is cut off" in err
    assert out.splitlines()[-1].startswith("next: ")
