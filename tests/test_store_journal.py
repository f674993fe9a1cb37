import pytest

from gdnbench.store.files import Journal, read_journal

NAME = "journal.jsonl"


def write(folder, *lines):
    with Journal(folder) as journal:
        for line in lines:
            journal.append(line)


def test_lines_come_back_in_order(tmp_path):
    write(tmp_path, "one", "two")
    write(tmp_path, "three")
    assert list(read_journal(tmp_path)) == ["one", "two", "three"]


def test_a_line_is_on_disk_as_soon_as_it_is_appended(tmp_path):
    with Journal(tmp_path) as journal:
        journal.append("one")
        assert list(read_journal(tmp_path)) == ["one"]


def test_where_there_is_no_journal_there_are_no_lines(tmp_path):
    assert list(read_journal(tmp_path)) == []


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
