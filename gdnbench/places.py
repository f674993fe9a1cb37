"""Where runs and profiles lie unless the user says otherwise, and where calibrations do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path("results")
PROFILES = Path("profiles")
CALIBRATIONS = "calibration"
"""The folder in the one of runs that holds the runs of calibrations: one folder a calibration."""


def calibrations_folder() -> Path:
    """Where the last calibration of each host and GPU model lies: in the user's state folder."""
    from platformdirs import user_state_path  # on demand: most verbs need none

    return user_state_path("gdnbench", appauthor=False) / CALIBRATIONS


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that none can have, or that may not be looked up, is none."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for those


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; likewise."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for those


def out_option(results: Path) -> tuple[str, ...]:
    """The words that make a verb look for runs there; none for the usual folder."""
    return () if results == RESULTS else ("--out", str(results))


def profiles_option(profiles: Path) -> tuple[str, ...]:
    """The words that make a verb look for profiles there; none for the usual folder."""
    return () if profiles == PROFILES else ("--profiles", str(profiles))


def in_places(command: Sequence[str], results: Path, profiles: Path) -> tuple[str, ...]:
    """A command of ours that goes on with the runs and profiles of these folders."""
    verb = command[1] if command[:1] == ("gdnbench",) else ""
    out = out_option(results) if verb in _OF_RUNS else ()
    return (*command, *out, *(profiles_option(profiles) if verb in _OF_PROFILES else ()))


_OF_RUNS = {"compare", "explain", "history", "list", "plot", "report", "run", "show", "sweep"}
_OF_PROFILES = {"explain", "ncu", "nsys", "phases", "proton"}
