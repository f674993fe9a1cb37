"""Reads a run that was stopped, so that it can go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gdnbench.bench.events import Event, Examined, Sampled, decode
from gdnbench.bench.measuring import Collected
from gdnbench.bench.request import Settings
from gdnbench.bench.task import BURN_IN
from gdnbench.catalog import Catalog
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model import Case, Clock
from gdnbench.store import RunInfo, find_newest, name_runs, read_info, read_journal


@dataclass(frozen=True)
class Resumed:
    """An unfinished run.

    Attributes:
        path: its folder.
        info: its description.
        settings: how it is measured.
        cases: what it measures.
        collected: what its own timer has measured.
        clocked: what its further clocks have measured.
    """

    path: Path
    info: RunInfo
    settings: Settings
    cases: tuple[Case, ...]
    collected: Collected
    clocked: dict[Clock, Collected]


def load_unfinished(results: Path, wanted: str, catalog: Catalog) -> Resumed:
    """Reads the journal of an unfinished run.

    Cases that took their worker down get another chance, except in a race, where the others are ahead of them.

    Raises:
        UnknownNameError: if there is no such run.
        UsageError: if it is whole already, or a kernel has changed since.
    """
    named = name_runs(results, wanted, stopped=True)
    path = named.runs[0] if named.is_one else find_newest(named.runs, lambda folder: not read_info(folder).complete)
    info = read_info(path)
    if info.complete:
        raise UsageError(f"{info.run_id} is complete: there is nothing to resume", f"gdnbench show {info.run_id}")
    changed = source_change(info, catalog)
    if changed:  # half a run of one kernel and half of another would be a lie
        raise UsageError(f"{changed} since {info.run_id} began", "start a new run")
    settings = settings_of(info)
    events = [_event(path, line) for line in read_journal(path)]
    collected = _replay(event for event in events if not _clock(event))
    if not (info.swept and any(collected.samples.values())):
        collected.lost.clear()
    clocked = {clock: _replay(event for event in events if _clock(event) == clock) for clock in settings.clocks}
    for each in clocked.values():
        each.lost.clear()
    cases = tuple(Case.from_dict(case) for case in info.cases)
    return Resumed(path, info, settings, cases, collected, clocked)


def _clock(event: Event) -> str:
    return event.clock if isinstance(event, Examined | Sampled) else ""


def settings_of(info: RunInfo) -> Settings:
    """How a run is measured.

    Raises:
        RunFormatError: for settings that this gdnbench does not know.
    """
    try:
        return Settings(**{**info.settings, "clocks": tuple(info.settings.get("clocks", ()))})
    except TypeError as error:
        raise RunFormatError(f"the settings of {info.run_id} are not known here: {error}", "start a new run") from error


def _replay(events: Iterable[Event]) -> Collected:
    """What was measured. A worker begins with a burn-in of its cases; the round that the last one tore is dropped."""
    collected = Collected()
    crew: set[str] = set()  # of the worker at hand
    burning = False
    for event in events:
        if isinstance(event, Sampled):
            if event.round == BURN_IN and not burning:
                collected.drop_torn_rounds(crew - collected.lost.keys())
                crew = set()
            burning = event.round == BURN_IN
            crew |= {event.case} if burning else set()
        collected.take(event)
    collected.drop_torn_rounds(crew - collected.lost.keys())
    return collected


def _event(path: Path, line: str) -> Event:
    try:
        return decode(line)
    except ValueError as error:
        raise RunFormatError(f"the journal in {path} is damaged: {error}", "measure anew") from error


def source_change(info: RunInfo, catalog: Catalog) -> str:
    """The first kernel that is not as the run knew it, in words; empty if there is none."""
    for name, source_hash in info.sources.items():
        entry = catalog.entries.get(name)
        if entry is None or entry.known_source() != source_hash:
            return f"{name} {'is gone' if entry is None else 'has changed'}"
    return ""
