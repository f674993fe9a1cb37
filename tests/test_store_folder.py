"""A run's name and its folder: hidden until whole, found by what a person remembers of it."""

from datetime import UTC, datetime

import pytest
from run_data import info

from gdnbench.errors import UnknownNameError
from gdnbench.store.files import RunFolder, run_id_of
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


def test_a_stopped_run_is_hidden_again_while_it_goes_on(tmp_path):
    path = tmp_path / "run"  # as another process left it
    path.mkdir()
    again = RunFolder.reopen(path)
    assert (again.run_id, path.exists()) == ("run", False)
    assert again.finish() == path
