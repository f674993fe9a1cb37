"""Progress where stderr is no terminal: a line each `EVERY_S` seconds, and none of what takes less."""

import time

from gdnbench.model.status import Status
from gdnbench.process.events import CaseChecked, PhaseBegun, StepChanged, UnitDone
from gdnbench.verbs import progress


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
