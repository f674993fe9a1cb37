"""Files that a user names: refused early where they cannot be, written whole or not at all."""

import contextlib
import errno
import os
import resource
import tempfile
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


def fails_with(number):
    def fail(*_args, **_named):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("name", ["report.html", "report.htm", "REPORT.HTML", "ünï [red].html", ".hidden.html"])
def test_a_file_is_written_whole(tmp_path, name):
    check(tmp_path / name)
    assert not list(tmp_path.iterdir())
    write_output_file(tmp_path / name, NEW)
    assert (tmp_path / name).read_bytes() == NEW
    assert len(list(tmp_path.iterdir())) == 1


def test_a_name_in_the_current_folder_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check("report.html")
    write_output_file(Path("report.html"), NEW)
    assert (tmp_path / "report.html").read_bytes() == NEW


def test_a_file_that_is_there_is_replaced_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o640)
    check(path)
    assert path.read_text() == "old"
    write_output_file(path, NEW)
    assert path.read_bytes() == NEW
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_that_the_user_gives_to_files(tmp_path):
    before = os.umask(0o027)
    try:
        write_output_file(tmp_path / "report.html", NEW)
    finally:
        os.umask(before)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing yet"])
@pytest.mark.parametrize("relative", [True, False])
def test_a_symbolic_link_is_followed_and_stays(tmp_path, there, relative):
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "of-monday", tmp_path / "latest.html"
    if there:
        target.write_text("old")
    link.symlink_to(Path("kept/of-monday") if relative else target)
    check(link)
    write_output_file(link, NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW
    assert [each.name for each in target.parent.iterdir()] == ["of-monday"]


@pytest.mark.parametrize("name", ["report", "report.md", "report.html.txt", ".html", "html"])
def test_another_suffix_is_refused_with_one_that_is_taken(tmp_path, name):
    with pytest.raises(UsageError, match=r"\.html or \.htm") as caught:
        check(tmp_path / name)
    assert "report.html" in caught.value.hint


def test_a_folder_is_refused_with_a_file_in_it(tmp_path):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "link.html").symlink_to(tmp_path / "folder.html")
    for name in ("folder.html", "link.html"):
        with pytest.raises(UsageError, match="is a folder") as caught:
            check(tmp_path / name)
        assert str(tmp_path / name / "report.html") in caught.value.hint


@pytest.mark.parametrize("name", ["nowhere/report.html", "file/report.html", "link.html"])
def test_a_folder_that_does_not_exist_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "link.html").symlink_to(tmp_path / "nowhere" / "report.html")
    with pytest.raises(UsageError, match=r"there is no folder .*(nowhere|file)$") as caught:
        check(tmp_path / name)
    assert caught.value.hint


@pytest.mark.parametrize("what", ["pipe", "device", "socket"])
def test_what_is_no_regular_file_is_refused_and_stays(tmp_path, what):
    path = tmp_path / "report.html"
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/full")
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    before = path.stat().st_mode
    for attempt in (lambda: check(path), lambda: write_output_file(path, NEW)):
        with pytest.raises(UsageError, match="no regular file") as caught:
            attempt()
        assert caught.value.hint
    assert path.stat().st_mode == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_that_leads_to_itself_is_refused(tmp_path):
    (tmp_path / "report.html").symlink_to(tmp_path / "report.html")
    with pytest.raises(MachineError, match="symbolic links"):
        check(tmp_path / "report.html")


def test_a_folder_that_takes_no_files_is_refused_before_the_work():
    with pytest.raises(MachineError, match=r"cannot write /proc/report\.html") as caught:
        check("/proc/report.html")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.hint
    with pytest.raises(MachineError, match="cannot write"):
        write_output_file(Path("/proc/report.html"), NEW)


def test_a_disk_that_is_read_only_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", fails_with(errno.EROFS))
    with pytest.raises(MachineError, match="Read-only file system"):
        check(tmp_path / "report.html")


def test_a_file_that_is_read_only_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # permissions do not stop root
    with pytest.raises(MachineError, match="read-only"):
        check(tmp_path / "report.html")
    check(tmp_path / "another.html")


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(MachineError, match="too long"):
        check(tmp_path / f"{'x' * 300}.html")


def test_the_longest_name_that_a_disk_takes_can_be_written(tmp_path):
    path = tmp_path / f"{'x' * 250}.html"
    check(path)
    write_output_file(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("there", [True, False])
def test_a_write_that_fails_half_way_leaves_what_was_there_and_nothing_else(tmp_path, there):
    path = tmp_path / "report.html"
    if there:
        path.write_text("old")
    with full_disk(), pytest.raises(MachineError, match="cannot write") as caught:
        write_output_file(path, NEW)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.hint
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"] * there


@pytest.mark.parametrize("step", ["open", "replace"])
def test_whichever_step_fails_nothing_is_left(tmp_path, monkeypatch, step):
    (tmp_path / "report.html").write_text("old")
    with monkeypatch.context() as patched:
        patched.setattr(Path, step, fails_with(errno.ENOSPC))
        with pytest.raises(MachineError, match="No space left on device"):
            write_output_file(tmp_path / "report.html", NEW)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_output_file(tmp_path / "report.html", NEW)
    assert not list(tmp_path.iterdir())


def test_what_became_no_regular_file_while_the_work_was_done_stays(tmp_path):
    path = tmp_path / "report.html"
    check(path)
    path.mkdir()
    with pytest.raises(UsageError, match="no regular file"):
        write_output_file(path, NEW)
    assert path.is_dir()
