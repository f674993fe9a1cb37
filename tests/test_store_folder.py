"""A run's name and its folder: hidden until whole, found by what a person remembers of it."""

from datetime import UTC, datetime

import pytest
from run_data import info

from gdnbench.errors import MachineError, UnknownNameError, UsageError
from gdnbench.store.files import Journal, RunFolder, read_journal, run_id_of
from gdnbench.store.find import find_run
from gdnbench.store.info import write_info
from gdnbench.store.measurements import write_measurements

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


def test_a_run_is_hidden_until_it_is_finished(tmp_path):
    folder = RunFolder.create(tmp_path, "run")
    write_info(folder.path, info())
    write_measurements(folder.path, info(), [])
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


def test_a_run_that_is_being_measured_cannot_be_taken_up(tmp_path):
    measuring = RunFolder.create(tmp_path, "run")
    with pytest.raises(UsageError, match="another process"):
        RunFolder.reopen(measuring.path)


NAME = "journal.jsonl"


def write(folder, *lines):
    with Journal(folder) as journal:
        for line in lines:
            journal.append(line)


def test_lines_come_back_in_order(tmp_path):
    write(tmp_path, "one", "two")
    write(tmp_path, "three")
    assert list(read_journal(tmp_path)) == ["one", "two", "three"]


@pytest.mark.parametrize("cut", [1, 3])
def test_a_last_line_that_was_cut_off_is_left_out(tmp_path, cut):
    write(tmp_path, "one", "two")
    path = tmp_path / NAME
    path.write_text(path.read_text()[:-cut])
    assert list(read_journal(tmp_path)) == ["one"]


def test_a_run_that_goes_on_after_a_cut_off_line_loses_only_that_line(tmp_path):
    write(tmp_path, "one", "two")
    path = tmp_path / NAME
    path.write_text(path.read_text()[:-2])
    write(tmp_path, "three", "four")
    assert list(read_journal(tmp_path)) == ["one", "three", "four"]
