"""What is said: where an exception was raised, words for numbers, and progress where stderr is no terminal."""

import runpy
import time

import pytest

from gdnbench.errors import DeclarationError, raised_at, tell_raised
from gdnbench.model.status import Status
from gdnbench.process.events import CaseChecked, PhaseBegun, StepChanged, UnitDone
from gdnbench.verbs import progress
from gdnbench.wording import plural, spans_text


def fail(path, source):
    path.write_text(source)
    try:
        runpy.run_path(str(path))
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n\nraise KeyError('q')\n", "kernel.py:3: KeyError: 'q'"),
        ("def call():\n    return int('many')\n\ncall()\n", "kernel.py:2: ValueError: invalid literal for int()"),
        ("import json\njson.loads('{')\n", "kernel.py:2: JSONDecodeError: Expecting property name"),
        ("x = (\n", "kernel.py:1: SyntaxError: '(' was never closed"),
        ("raise RuntimeError('first\\nsecond')\n", "kernel.py:1: RuntimeError: first"),
        ("raise MemoryError\n", "kernel.py:1: MemoryError"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('no') from e\n",
         "kernel.py:4: ValueError: no"),
    ],
)  # fmt: skip
def test_a_line_tells_file_line_type_and_what_it_says(tmp_path, source, told):
    said = tell_raised(fail(tmp_path / "kernel.py", source), tmp_path)
    assert said.startswith(told)
    assert "\n" not in said


def test_an_exception_wrapped_by_a_library_is_found_by_its_cause(tmp_path):
    inner = fail(tmp_path / "kernel.py", "x = 1\nraise KeyError('q')\n")
    try:
        raise RuntimeError("interpreter failed") from inner
    except RuntimeError as outer:
        assert tell_raised(outer, tmp_path) == "kernel.py:2: RuntimeError: interpreter failed"


def test_remote_there_is_no_line_to_tell(tmp_path):
    error = fail(tmp_path / "kernel.py", "raise ValueError('no')\n")
    assert raised_at(error, tmp_path / "other") is None
    assert tell_raised(error, tmp_path / "other") == "ValueError: no"


def test_what_gdnbench_says_itself_is_told_as_it_is(tmp_path):
    assert tell_raised(DeclarationError("the kernel must return output"), tmp_path) == "the kernel must return output"


@pytest.mark.parametrize(
    ("said", "as_"),
    [
        ((0, "warp"), "0 warps"),
        ((1, "warp"), "1 warp"),
        ((8, "warp"), "8 warps"),
        ((1, "branch", "branches"), "1 branch"),
        ((2, "branch", "branches"), "2 branches"),
    ],
)
def test_a_count_is_said_as_one_says_it(said, as_):
    assert plural(*said) == as_


@pytest.mark.parametrize(("numbers", "as_"), [((), ""), ((3,), "3"), ((0, 1, 2, 7), "0-2,7"), ((4, 6, 7), "4,6-7")])
def test_neighbours_are_said_as_a_span(numbers, as_):
    assert spans_text(numbers) == as_


def test_what_is_over_at_once_prints_nothing_but_failures(capsys):
    with progress.watch(quiet=False) as observer:
        for event in (PhaseBegun("check", 2), UnitDone(), CaseChecked("decode-x", "B=1", Status.CRASHED, "why")):
            observer(event)
    assert capsys.readouterr().err == "crashed decode-x B=1: why\n"


def test_what_takes_longer_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    told = ""
    with progress.watch(quiet=False) as observer:
        for event in (PhaseBegun("read", 3), StepChanged("[a] run"), UnitDone()):
            observer(event)
        while "1 of 3" not in told:
            time.sleep(0.01)
            told += capsys.readouterr().err
    assert "reading: 1 of 3 after 0 s; [a] run" in told.splitlines()
    with progress.watch(quiet=True) as observer:
        observer(PhaseBegun("read", 3))
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
