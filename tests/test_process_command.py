"""Tools: what they print, how they end, and that nothing of them stays."""

import sys

import pytest

from gdnbench.process.command import describe_exit, run_tool


def python(code, limit_s=30, **options):
    return run_tool([sys.executable, "-c", code], limit_s=limit_s, **options)


def test_both_streams_apart_and_merged():
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr); sys.exit(3)"
    apart, merged = python(code), python(code, merge=True)
    assert (apart.returncode, apart.output, apart.errors) == (3, "one\n", "two\n")
    assert (merged.returncode, merged.output, merged.errors) == (3, "one\ntwo\n", "")


def test_a_limit_and_an_absent_program():
    with pytest.raises(TimeoutError, match=r"did not end within 0\.5 s"):
        python("import time; time.sleep(60)", limit_s=0.5)
    with pytest.raises(FileNotFoundError):
        run_tool(["/nowhere/tool"], limit_s=5)


@pytest.mark.parametrize(
    ("returncode", "words"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-200, "exit code -200")]
)
def test_exit_statuses_in_words(returncode, words):
    assert describe_exit(returncode) == words
