"""Where runs and profiles lie unless the user says otherwise, and where calibrations do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gdnbench.asked import asked

RESULTS = Path("results")
PROFILES = Path("profiles")
LEDGER = Path("ledger.jsonl")
"""Beside the folder of runs; it is meant to be kept in the project's repository."""

EVIDENCE = "evidence"
"""The folder in the one of runs that holds those which pages quote; verbs read in it only what is named."""

CALIBRATIONS = "calibration"
"""The folder in the one of runs that holds the runs of calibrations: one folder a calibration."""

CACHE_VARIABLE = "GDNBENCH_CACHE"

GPU_VERBS = ("calibrate", "doctor", "ncu", "phases", "proton", "run", "step", "sweep", "verify")
"""The verbs that need a GPU, and may run on a target that has one."""


def calibrations_folder() -> Path:
    """Where the last calibration of each host and GPU model lies: in the user's state folder."""
    from platformdirs import user_state_path  # on demand: most verbs need none

    return user_state_path("gdnbench", appauthor=False) / CALIBRATIONS


def cache_root() -> Path:
    """Where everything is kept that can be made again: `$GDNBENCH_CACHE`, else the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).resolve()
    from platformdirs import user_cache_path

    return user_cache_path("gdnbench")


def index_folder() -> Path:
    """Where the indexes of folders of runs are kept."""
    return cache_root() / "runs"


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that none can have, or that may not be looked up, is none."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for those


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; likewise."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for those


def out_option(results: Path) -> tuple[str, ...]:
    """The words that make a verb look for runs there; none for the usual folder.

    Of a command that was asked for on another machine, for that machine.
    """
    if (elsewhere := asked()) and results == RESULTS:
        results = Path(elsewhere.results)
    return () if results == RESULTS else ("--out", str(results))


def on_option(command: Sequence[str]) -> tuple[str, ...]:
    """The words that make a command of ours run where this one does, on a target; none where it needs no GPU.

    Nor are there any where this command runs on the machine that it was asked for on.
    """
    elsewhere = asked()
    named = elsewhere.target if elsewhere and command[0] == "gdnbench" and command[1] in GPU_VERBS else ""
    return ("--on", named) if named else ()


def place_asked(path: Path) -> Path:
    """What a folder of runs or profiles, or what is in it, is called where this command was asked for."""
    elsewhere = asked()
    for usual, there in ((RESULTS, elsewhere.results), (PROFILES, elsewhere.profiles)) if elsewhere else ():
        if path.is_relative_to(usual):
            return Path(there) / path.relative_to(usual)
    return path


def profiles_option(profiles: Path) -> tuple[str, ...]:
    """The words that make a verb look for profiles there; none for the usual folder; likewise."""
    if (elsewhere := asked()) and profiles == PROFILES:
        profiles = Path(elsewhere.profiles)
    return () if profiles == PROFILES else ("--profiles", str(profiles))


def ledger_option(ledger: Path) -> tuple[str, ...]:
    """The words that make a verb use that ledger; none for the usual one."""
    return () if ledger == LEDGER else ("--ledger", str(ledger))


def in_places(command: Sequence[str], results: Path, profiles: Path) -> tuple[str, ...]:
    """A command of ours that goes on with the runs and profiles of these folders."""
    verb = command[1] if command[:1] == ("gdnbench",) else ""
    out = out_option(results) if verb in _OF_RUNS else ()
    return (*command, *out, *(profiles_option(profiles) if verb in _OF_PROFILES else ()))


_OF_RUNS = {"compare", "explain", "history", "list", "plot", "report", "run", "show", "step", "sweep"}
_OF_PROFILES = {"explain", "ncu", "nsys", "phases", "proton"}
