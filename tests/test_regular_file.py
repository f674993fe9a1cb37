"""Stored files that are no files: no verb waits for a pipe, reads a device, or holds a file that never ends."""

import contextlib
import itertools
import os
import resource
import shutil
import signal
import socket
from pathlib import Path

import pytest
from faults import answer
from report_data import store_run

from gdnbench.errors import ExitCode
from gdnbench.regular_file import NotRegularError, TooLargeError, check_regular, read_regular, read_regular_text

RUN, OLDER = "20260102-030405-h200-decode-main", "20260101-030405-h200-decode-older"
EXPECTED = {code.value for code in ExitCode} - {ExitCode.CRASHED, ExitCode.INTERRUPTED}
SPARSE_BYTES = 1 << 34
LIMIT_S = 30


def _link(to):
    return lambda path: path.symlink_to(to)


def _pipe(path):
    os.mkfifo(path)


def _link_to_pipe(path):
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def _socket(path):
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # the whole path may be longer than a socket's name can be


def _sparse(path):
    with path.open("wb") as file:
        file.truncate(SPARSE_BYTES)


def _link_to_sparse(path):
    _sparse(path.with_name("sparse"))
    path.symlink_to("sparse")


NO_FILES = {
    "a link to zeros": _link("/dev/zero"),
    "a link to random numbers": _link("/dev/urandom"),
    "a link to a full device": _link("/dev/full"),
    "a link to nothing read": _link("/dev/null"),
    "a pipe": _pipe,
    "a link to a pipe": _link_to_pipe,
    "a socket": _socket,
    "a folder": Path.mkdir,
    "a link to a folder": _link("/dev"),
}
TOO_LARGE = {"a sparse file": _sparse, "a link to a sparse file": _link_to_sparse}
FAULTS = NO_FILES | TOO_LARGE


@pytest.fixture(autouse=True)
def bounded():
    """A gibibyte and some seconds: what reads a device would take all there is."""

    def ring(*_):
        raise AssertionError(f"it took more than {LIMIT_S} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    previous = signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), before[1]))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)
    resource.setrlimit(resource.RLIMIT_AS, before)


def timed(*words, folder):
    signal.alarm(LIMIT_S)
    done = answer(*words, folder=folder)
    signal.alarm(0)
    return done


@pytest.mark.parametrize("fault", FAULTS)
def test_only_regular_files_of_a_bounded_size_are_opened(tmp_path, fault):
    path = tmp_path / "file"
    FAULTS[fault](path)
    signal.alarm(LIMIT_S)
    for read in (check_regular, read_regular, read_regular_text):
        with pytest.raises(NotRegularError if fault in NO_FILES else TooLargeError) as caught:
            read(path)
        assert caught.value.filename == str(path)
        assert caught.value.strerror


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1 << 21])
def test_a_file_is_read_whole_up_to_its_limit(tmp_path, size):
    path, content = tmp_path / "file", os.urandom(size)
    path.write_bytes(content)
    (tmp_path / "link").symlink_to(path)
    assert read_regular(tmp_path / "link") == content
    assert read_regular(path, size) == content
    if size:
        with pytest.raises(TooLargeError):
            read_regular(path, size - 1)


def test_text_has_line_feeds_and_is_utf_8(tmp_path):
    path = tmp_path / "file"
    path.write_bytes("a\r\nb\rµ\n".encode())
    assert read_regular_text(path) == path.read_text(encoding="utf-8") == "a\nb\nµ\n"
    path.write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_regular_text(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("made")
    (home / "results").mkdir()
    for run in (RUN, OLDER):
        store_run(home / "results", run)
    return home


OF_RUNS = (
    ("show", RUN),
    ("list",),
    ("runs",),
    ("history", "decode-k1"),
    ("compare", OLDER, RUN),
    ("report", RUN, "-o", "r.html"),
    ("show", RUN, "--chart", "roofline", "-o", "r.svg"),
    ("run", "--resume", RUN),
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_whose_files_are_no_files_ends_every_verb_in_a_known_code(made, tmp_path, fault):
    home = tmp_path / "home"
    names = sorted(path.name for path in (made / "results" / RUN).iterdir())
    assert {"run.json", "measurements.csv", "rounds.csv"} <= set(names)
    for name, verbs in zip((*names, "journal.jsonl"), itertools.cycle((OF_RUNS[::2], OF_RUNS[1::2])), strict=False):
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(made, home)
        victim = home / "results" / RUN / name
        victim.unlink(missing_ok=True)
        FAULTS[fault](victim)
        for words in verbs:
            done = timed(*words, folder=home)
            assert done.code in EXPECTED, f"{words} with {name} as {fault}: {done.code}\n{done.err}"


@pytest.mark.parametrize(
    "words",
    [
        ("ledger", "--ledger", "{}"),
        ("exchange", "import", "{}", "--op", "decode", "--to", "kernels"),
        ("compare", "{}"),
        ("ncu", "--import", "{}"),
        ("worker", "{}", "--out", "out"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_named_and_is_none_is_refused(tmp_path, fault, words):
    FAULTS[fault](tmp_path / "named.json")
    done = timed(*(word.format("named.json") for word in words), folder=tmp_path)
    assert done.code in EXPECTED - {0}, done.err
    assert "named.json" in done.err


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_of_targets_that_is_none_is_refused_or_passed_over(tmp_path, fault):
    FAULTS[fault](tmp_path / "gdnbench.toml")
    assert timed("targets", folder=tmp_path).code in EXPECTED
