"""What would end a verb in silence, or with an exit code that means something else, is told as a failure."""

import subprocess
import sys

import pytest
from faults import answer

from gdnbench.errors import UsageError
from gdnbench.process.command import LONGEST_LIMIT_S, run_tool
from gdnbench.store.settings import MOST_SAMPLES, Settings
from gdnbench.verbs import options

ENDS = {
    "exit-0": ("SystemExit(0)", "SystemExit: 0"),
    "exit": ("SystemExit", "SystemExit"),
    "exit-1": ("SystemExit(1)", "SystemExit: 1"),
    "exit-text": ("SystemExit('bye')", "SystemExit: bye"),
    "end-of-file": ("EOFError", "EOFError"),
    "end-of-file-told": ("EOFError('marshal data too short')", "EOFError: marshal data too short"),
    "odd": ("LookupError('x')", "LookupError: x"),
}
VERBS = {
    "list": (("list",), "gdnbench.verbs.list.find_kernels"),
    "runs": (("runs",), "gdnbench.verbs.runs.list_runs"),
    "doctor": (("doctor", "--gpu", "cpu"), "gdnbench.doctor.checks.run_checks"),
}


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    """The folder of logs, away from the user's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(("verb", "end"), [*(("list", end) for end in ENDS), *((verb, "exit-0") for verb in VERBS)])
def test_what_a_verb_calls_does_not_end_it_well(monkeypatch, verb, end):
    raised, told = ENDS[end]
    words, called = VERBS[verb]

    def ends(*_arguments, **_options):
        raise eval(raised)

    monkeypatch.setattr(called, ends)
    done = answer(*words, COLUMNS="500")
    assert done.code == 70
    assert f"gdnbench itself failed: {told}" in done.err
    assert "Aborted" not in done.err


LIMITS = ("1e308", "nan", "-1", "0", "1000001")


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    "words",
    [
        ("run", "decode-reference", "--gpu", "cpu", "--step-limit"),
        ("verify", "decode-reference", "--gpu", "cpu", "--step-limit"),
        ("sweep", "decode-triton", "--step-limit"),
        ("ncu", "decode-v4", "--limit"),
        ("proton", "decode-v4", "--limit"),
    ],
    ids=lambda words: words[0],
)
def test_a_limit_that_is_no_time_is_refused(words, limit):
    done = answer(*words, limit, COLUMNS="200")
    assert done.code == 2
    assert f"error: {words[-1]} " in done.err
    assert "1,000,000 s" in done.err


@pytest.mark.parametrize("samples", [MOST_SAMPLES + 1, 2**53 + 1, 10**19, 10**400])
def test_more_samples_than_are_kept_are_refused(samples):
    with pytest.raises(UsageError, match="at most 1,000,000 are kept"):
        Settings(samples=samples)


def test_the_longest_limit_is_one_that_the_system_takes():
    """A wait is counted in milliseconds in 31 bits."""
    assert options._check_limit(LONGEST_LIMIT_S) == LONGEST_LIMIT_S
    assert run_tool(["true"], limit_s=LONGEST_LIMIT_S).returncode == 0
    Settings(step_limit_s=LONGEST_LIMIT_S, samples=MOST_SAMPLES)


@pytest.mark.parametrize("module", ["gdnbench.verbs.app", "gdnbench.verbs.outcome", "typer"])
def test_an_interrupt_while_it_loads_ends_it_without_a_traceback(module):
    script = f"""
import sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from gdnbench.__main__ import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
