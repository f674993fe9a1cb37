"""What an engine makes of what a worker tells, with programs in the worker's place."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from gdnbench.errors import ConnectionLostError, MachineError, UsageError
from gdnbench.model.status import Status
from gdnbench.process.channel import encode
from gdnbench.process.events import (
    CaseChecked,
    JobEnded,
    NoteMade,
    PhaseBegun,
    RaceStatus,
    RunOpened,
    StepChanged,
    TextPrinted,
    UnitDone,
)
from gdnbench.remote.environment import Prepared
from gdnbench.remote.forward import run_job
from gdnbench.remote.host import Host
from gdnbench.remote.targets import LocalTarget, NamedTarget
from gdnbench.verbs.targets import run_on


class Stand(Host):
    """A host on which whatever is started is a script."""

    name = "far"

    def __init__(self, script):
        self._script = script

    def start(self, _argv, **streams):
        return super().start([sys.executable, "-c", self._script], **streams)


def run(script, opened=None):
    told = []
    ready = Prepared(Stand(script), "/work", "python", "/package", ())
    runs = [] if opened is None else opened
    outcome = run_job(ready, "/job", told.append, runs.append)
    return outcome, told


class Scripted:
    def __init__(self, script):
        self._script = script

    def execute(self, _host, _observer):
        return run(self._script)[0]


TARGET = NamedTarget("far", LocalTarget(), Path("gdnbench.toml"))


def printing(*events):
    return "\n".join(f"print({encode(event)!r})" for event in events)


def test_events_reach_the_observer_in_order_and_a_greeting_is_passed_over(capsys):
    events = [
        PhaseBegun("check", 3),
        StepChanged("decode-v4 B=1"),
        UnitDone(),
        RaceStatus("3 left"),
        NoteMade("a note"),
        CaseChecked("decode-v4", "B=1", Status.OK, ""),
        TextPrinted("stderr", "error: x\n"),
        TextPrinted("stdout", "a ta"),
        RunOpened("20990101-000000-cpu-decode"),
        TextPrinted("stdout", "ble µ\n"),
        JobEnded(8, ["results/x"]),
    ]
    runs = []
    outcome, told = run("print('Welcome to the lab!')\nprint('{}')\n" + printing(*events), runs)
    assert (outcome.code, outcome.folders, outcome.printed) == (8, ("results/x",), "a table µ\n")
    assert told == events[:6]
    assert runs == ["20990101-000000-cpu-decode"]
    assert capsys.readouterr().err == "error: x\n"


COMMANDS = {
    "a title": "\x1b]0;owned\x07",
    "a clipboard": "\x1b]52;c;b3duZWQ=\x1b\\",
    "a cursor": "\x1b[2J\x1b[1;1H",
    "one of eight bits": "\x9b2J\x9d0;owned\x9c",
    "a colour that never ends": "\x1b[" + "1;" * 5000 + "m",
    "a question": "\x1b[6n\x1b[c",
    "a backspace": "safe\b\b\b\bevil\r",
    "an order of text": "\u202eevil\u2066",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_a_target_prints_commands_no_terminal_and_keeps_its_colours(capsys, command, stream):
    text = f"\x1b[1;31mbad\x1b[0m{command}\tend\n"
    script = printing(TextPrinted(stream, text), JobEnded(0, []))
    run_on(TARGET, Scripted(script), quiet=True)
    captured = capsys.readouterr()
    shown = captured.out if stream == "stdout" else captured.err
    assert shown.startswith("\x1b[1;31mbad\x1b[0m")
    assert shown.endswith("\tend\n")
    rest = shown.removeprefix("\x1b[1;31mbad\x1b[0m")
    assert not any((c < " " and c not in "\t\n") or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066" for c in rest)


@pytest.mark.parametrize(
    "script", ["while True: print('x' * 65536, end='')", printing(TextPrinted("stdout", "x" * 999))]
)
def test_a_target_that_prints_without_end_is_refused(monkeypatch, script):
    monkeypatch.setattr("gdnbench.remote.forward.MOST_TEXT", 500)
    with pytest.raises(UsageError, match="the target prints more than"):
        run(script)


def test_a_worker_that_never_tells_anything_did_not_start():
    with pytest.raises(MachineError, match="gdnbench does not start on far: python: not found") as caught:
        run("import sys; print('hi'); sys.exit('python: not found')")
    assert not isinstance(caught.value, ConnectionLostError)


@pytest.mark.parametrize("rest", ["", '; import os; os.write(1, b\'{"kind":"JobEn\')'])
def test_a_worker_that_goes_without_a_word_was_cut_off(rest):
    script = printing(PhaseBegun("check", 3)) + "; import sys; sys.stdout.flush()" + rest
    with pytest.raises(ConnectionLostError, match="the connection to far was cut"):
        run(script + "; sys.exit('Connection to far closed')")


LISTENING = printing(PhaseBegun("check", 3)).replace("print(", "print(flush=True, *[", 1)[:-1] + "])\n"
ECHO = (
    LISTENING
    + """
import sys
for line in sys.stdin:
    print('{"kind":"NoteMade","text":"heard %s"}' % line.strip(), flush=True)
    if ENDS and line.strip() in ENDS:
        print('{"kind":"JobEnded","code":130,"folders":[]}', flush=True)
        break
"""
)


def ctrl_c(times):

    def press():
        for number in range(times):
            threading.Event().wait(1.0 if number == 0 else 0.5)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_ctrl_c_says_stop_and_waits_for_the_end():
    pressing = ctrl_c(1)
    outcome, told = run(f"ENDS = ['stop']\n{ECHO}")
    pressing.join()
    assert outcome.code == 130
    assert NoteMade("heard stop") in told


def test_a_second_ctrl_c_does_not_wait():
    pressing = ctrl_c(2)
    with pytest.raises(KeyboardInterrupt):
        run(f"ENDS = ['never']\n{ECHO}")
    pressing.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_worker_hears_that_somebody_is_there(monkeypatch):
    monkeypatch.setattr("gdnbench.remote.forward._BEAT_S", 0.1)
    outcome, told = run(f"ENDS = ['']\n{ECHO}")
    assert outcome.code == 130
    assert NoteMade("heard ") in told
