"""Files that a user names: refused early where they cannot be, written whole or not at all."""

import contextlib
import os
import resource
from pathlib import Path

import pytest

from gdnbench.errors import ExitCode, MachineError, UsageError
from gdnbench.render.console import check_output_file, write_output_file

NEW = b"new " * 5000


def check(path):
    check_output_file(Path(path), "--output", (".html", ".htm"), "report.html")


@contextlib.contextmanager
def full_disk():
    """A disk that takes 4000 bytes a file: the write that goes beyond fails half-way, as on a full one.

    It must end within the test: pytest's own output may be a file, too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["report.html", "REPORT.HTM", "ünï [red].html", f"{'x' * 250}.html"])
def test_a_file_is_written_whole_and_replaces_one_that_is_there(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / name, Path(name)):
        check(path)
        write_output_file(path, NEW)
        assert [each.read_bytes() for each in tmp_path.iterdir()] == [NEW]
        path.write_text("old")


def test_a_symbolic_link_is_followed_and_stays(tmp_path):
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "of-monday", tmp_path / "latest.html"
    target.write_text("old")
    link.symlink_to(Path("kept/of-monday"))
    check(link)
    write_output_file(link, NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW
    assert [each.name for each in target.parent.iterdir()] == ["of-monday"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        *((name, r"\.html or \.htm") for name in ("report", "report.html.txt", ".html")),
        ("folder.html", "not a regular file"),
        ("pipe.html", "not a regular file"),
        ("device.html", "not a regular file"),
        ("itself.html", "not a regular file"),
        ("nowhere/report.html", "there is no folder .*nowhere$"),
        ("pipe.html/report.html", r"there is no folder .*pipe\.html$"),
    ],
)
def test_what_cannot_be_a_file_is_refused_with_what_can_and_stays(tmp_path, name, told):
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "device.html").symlink_to("/dev/full")
    (tmp_path / "itself.html").symlink_to("itself.html")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=told) as caught:
        check(tmp_path / name)
    assert caught.value.hint
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_read_only_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # permissions do not stop root
    with pytest.raises(MachineError, match="read-only") as caught:
        check(tmp_path / "report.html")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.hint


@pytest.mark.parametrize("there", [True, False])
def test_a_write_that_fails_half_way_leaves_what_was_there_and_nothing_else(tmp_path, there):
    path = tmp_path / "report.html"
    if there:
        path.write_text("old")
    with full_disk(), pytest.raises(MachineError, match="cannot write"):
        write_output_file(path, NEW)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"] * there
