"""A run's name and its folder: hidden until whole, found by what a person remembers of it."""

from datetime import UTC, datetime

import pytest
from run_data import info

from gdnbench.errors import MachineError, UnknownNameError, UsageError
from gdnbench.store import RunFolder, find_run, run_id_of, write_info

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("label", "tail"),
    [
        ("", ""),
        ("before", "-before"),
        ("my label, v2!", "-my-label-v2"),
        ("../../etc/passwd", "-etc-passwd"),
        ("a_b.c-d", "-a_b.c-d"),
        ("///", ""),
        ("..", ""),
        ("größer", "-gr-er"),
        ("two\nlines", "-two-lines"),
    ],
)
def test_a_runs_name_is_when_where_what_and_a_safe_label(label, tail):
    assert run_id_of(NOW, "h200", "decode", label) == "20260102-030405-h200-decode" + tail


def test_names_sort_by_time():
    later = NOW.replace(hour=13)
    assert run_id_of(NOW, "h200", "decode", "z") < run_id_of(later, "a100", "decode", "")


def test_a_run_is_hidden_until_it_is_finished(tmp_path):
    folder = RunFolder.create(tmp_path, "run")
    write_info(folder.path, info())
    with pytest.raises(UnknownNameError):
        find_run(tmp_path, "run")
    assert folder.finish() == tmp_path / "run" == find_run(tmp_path, "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_runs_of_the_same_second_get_names_of_their_own(tmp_path):
    first, second = RunFolder.create(tmp_path, "run"), RunFolder.create(tmp_path, "run")
    first.finish()
    third = RunFolder.create(tmp_path, "run")
    assert [each.run_id for each in (first, second, third)] == ["run", "run-2", "run-3"]
    assert len({second.finish(), third.finish(), tmp_path / "run"}) == 3


def test_results_that_cannot_be_written_are_the_machines_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot write") as caught:
        RunFolder.create(tmp_path / "file", "run")
    assert "--out" in caught.value.hint


def test_a_stopped_run_is_hidden_again_while_it_goes_on(tmp_path):
    path = tmp_path / "run"  # as another process left it
    path.mkdir()
    again = RunFolder.reopen(path)
    assert (again.run_id, path.exists()) == ("run", False)
    assert again.finish() == path


def test_a_killed_run_keeps_its_name_when_it_goes_on(tmp_path):
    killed = tmp_path / ".run.partial"
    killed.mkdir()
    assert RunFolder.reopen(killed) == RunFolder("run", killed)


def test_a_run_that_is_being_measured_cannot_be_taken_up(tmp_path):
    measuring = RunFolder.create(tmp_path, "run")
    with pytest.raises(UsageError, match="another process"):
        RunFolder.reopen(measuring.path)


RUNS = (
    "20260101-000000-h200-decode",
    "20260102-000000-b200-decode-before",
    "20260103-000000-h200-decode-after",
    "20260104-000000-b200-decode",
)


@pytest.fixture
def results(tmp_path):
    for name in RUNS:
        folder = RunFolder.create(tmp_path, name)
        write_info(folder.path, info(run_id=name))
        folder.finish()
    killed = RunFolder.create(tmp_path, "20260105-000000-h200-decode")
    write_info(killed.path, info(run_id=killed.run_id, complete=False))
    (tmp_path / "not-a-run").mkdir()
    (tmp_path / "README.md").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", RUNS[3]),
        ("h200", RUNS[2]),
        ("H200", RUNS[2]),
        ("b200", RUNS[3]),
        ("20260102", RUNS[1]),
        ("20260102-000000-b200-decode-before", RUNS[1]),
        ("2026", RUNS[3]),
    ],
)
def test_a_run_is_found_by_what_one_remembers(results, wanted, found):
    assert find_run(results, wanted) == results / found


def test_a_whole_name_beats_one_that_begins_with_it(results):
    longer = RunFolder.create(results, RUNS[3] + "-more")
    write_info(longer.path, info())
    longer.finish()
    assert find_run(results, RUNS[3]) == results / RUNS[3]


def test_a_whole_label_beats_one_that_begins_with_it(results):
    longer = RunFolder.create(results, "20260106-000000-b200-decode-before-lunch")
    write_info(longer.path, info())
    longer.finish()
    assert find_run(results, "before") == results / "20260102-000000-b200-decode-before"
    assert find_run(results, "before-lunch") == find_run(results, "lunch") == results / longer.run_id


def test_the_latest_run_may_have_a_label(results):
    latest = RunFolder.create(results, "20260106-000000-h200-decode-late")
    write_info(latest.path, info())
    latest.finish()
    assert find_run(results) == find_run(results, "h200") == results / latest.run_id


def test_a_run_elsewhere_is_found_by_its_path(results, tmp_path_factory):
    assert find_run(tmp_path_factory.mktemp("none"), str(results / RUNS[0])) == results / RUNS[0]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_killed_run_shows_only_where_it_is_looked_for(results, hidden):
    assert (find_run(results, "", hidden=hidden).name == ".20260105-000000-h200-decode.partial") is hidden


@pytest.mark.parametrize("wanted", ["a100", "2027", "..", "not-a-run", "README.md"])
def test_an_unknown_run_is_answered_with_those_there_are(results, wanted):
    with pytest.raises(UnknownNameError, match="no run") as caught:
        find_run(results, wanted)
    assert "2026010" in caught.value.hint


def test_where_there_are_no_runs_the_hint_says_how_to_get_one(tmp_path):
    for results in (tmp_path, tmp_path / "gone"):
        with pytest.raises(UnknownNameError) as caught:
            find_run(results)
        assert "gdnbench run" in caught.value.hint
