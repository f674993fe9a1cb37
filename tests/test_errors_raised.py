"""An exception is told with the line of the user's file on which it was raised."""

import runpy

import pytest

from gdnbench.errors import DeclarationError, raised_at, tell_raised


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
