"""How commands end: crashes, streams that are closed, full or narrow-minded, and warnings."""

import errno
import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest
from committed import HOME
from faults import answer

from gdnbench.errors import ExitCode, LeftOutWarning, MachineError, UsageError
from gdnbench.process.events import PhaseBegun, UnitDone
from gdnbench.verbs.outcome import run_to_exit_code

GDNBENCH = [sys.executable, "-m", "gdnbench"]


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    """The folder of logs, away from the user's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def fails(error):
    def command():
        raise error

    return command


def test_a_crash_is_one_line_a_log_and_a_code_of_its_own(capsys, state):
    assert run_to_exit_code(fails(KeyError("heads"))) == ExitCode.CRASHED == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: gdnbench itself failed: KeyError: 'heads'\n")
    assert "Traceback" not in err
    (log,) = state.rglob("crash-*.log")
    assert str(log) in err.replace("\n", "")
    text = log.read_text()
    assert "Traceback" in text
    assert "KeyError: 'heads'" in text
    assert "gdnbench " in text.splitlines()[0]


def test_a_crash_whose_log_cannot_be_written_is_told_whole(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert run_to_exit_code(fails(ZeroDivisionError("1/0"))) == ExitCode.CRASHED
    assert "ZeroDivisionError: 1/0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("wrong", "right"), 2),
        (MachineError("no GPU", "buy one"), 5),
        (OSError(errno.ENOSPC, "No space left on device", "results/x"), 5),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 5000), 5),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141),
        (ModuleNotFoundError("No module named 'msgspec'", name="msgspec"), 5),
        (ModuleNotFoundError("No module named 'gdnbench.lost'", name="gdnbench.lost"), 70),
        (RecursionError("maximum recursion depth exceeded"), 70),
        (MemoryError(), 70),
        (SystemExit(3), 3),
        (SystemExit(None), 0),
    ],
)
def test_every_end_has_its_code(capsys, error, code):
    assert run_to_exit_code(fails(error)) == code
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert max(map(len, err.split()), default=0) < 300
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        assert error.strerror in " ".join(err.split())


def test_a_warning_about_what_was_left_out_is_said_once_and_others_as_ever(capsys):
    def command():
        for _ in range(3):
            warnings.warn("a run is left out", LeftOutWarning, stacklevel=1)

    assert run_to_exit_code(command) == 0
    assert capsys.readouterr().err == "warning: a run is left out\n"


def run(*words, stdout=subprocess.PIPE, **environment):
    return subprocess.run(
        [*GDNBENCH, *words],
        cwd=HOME,
        env={**os.environ, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("words", [["show", "main", "--csv"], ["--help"]])
def test_a_reader_that_is_gone_ends_it_quietly(words):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = run(*words, stdout=gone)
    assert (done.returncode, done.stderr) == (ExitCode.UNREAD, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["list"], ["show", "main", "--json"]])
def test_a_full_disk_behind_stdout_is_told(words):
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = run(*words, stdout=full)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("verb", ["runs", "targets"])
def test_two_formats_at_once_are_refused(verb):
    done = answer(*verb.split(), "--json", "--csv", folder=HOME)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert "--json and --csv are two formats" in done.err


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_streams_that_are_closed_stop_nothing(closed):
    command = f"exec {sys.executable} -m gdnbench list {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=HOME, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@cache
def in_encoding(encoding, *words):
    return answer(*words, folder=HOME, encoding=encoding, COLUMNS="80")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("words", [["show", "main"], ["history", "decode-v4"], ["compare", "main", "hopper"], ["list"]])
def test_any_terminal_shows_every_character_in_as_many_columns(encoding, words):
    plain, full = in_encoding(encoding, *words), in_encoding("utf-8", *words)
    assert plain.code == full.code == 0, plain.err
    lines, expected = plain.out.splitlines(), full.out.splitlines()
    assert len(lines) == len(expected)
    assert [len(line) for line in lines] == [len(line) for line in expected]


def test_ctrl_c_says_how_far_a_verification_had_come(command_line, monkeypatch):
    def stopped(*_arguments, observer, **_options):
        observer(PhaseBegun("check", 6))
        observer(UnitDone())
        raise KeyboardInterrupt

    monkeypatch.setattr("gdnbench.verify.preflight.verify_variants", stopped)
    code, out, err = command_line("verify", "decode-reference", "--gpu", "cpu")
    assert (code, out) == (ExitCode.INTERRUPTED, "")
    assert err.splitlines()[-1] == "stopped while checking, with 1 of 6 done"
