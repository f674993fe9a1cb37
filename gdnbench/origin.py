"""Where a command was typed, which may be another machine, its default folders, and the options that name other ones.

A job's worker puts it into the environment of the command, whose child processes inherit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gdnbench.errors import MachineError
from gdnbench.verb_table import VERBS

VARIABLE = "GDNBENCH_ASKED"


@dataclass(frozen=True)
class CommandOrigin:
    """Where and how a command was requested; folders and files have the origin's names.

    `target` is a name in `gdnbench.toml`. `roots` are the folders of kernels that came with the job; they replace all
    others, and with `project` all but the first are a project's. `git` is the state of the origin's checkout of the
    bundled kernels, as by `git_state`. `inputs` names captured inputs, or is empty.
    """

    target: str = ""
    roots: tuple[str, ...] = ()
    git: Mapping[str, str | bool | None] = field(default_factory=dict)
    results: str = "results"
    profiles: str = "profiles"
    inputs: str = ""
    project: bool = False

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that hold these values, for `command_origin`."""
        return {VARIABLE: json.dumps(asdict(self))}


def command_origin() -> CommandOrigin | None:
    """Returns the origin of this command, or None if it is this machine."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    fields = json.loads(text)
    return CommandOrigin(**{**fields, "roots": tuple(fields["roots"])})


SOURCE_HASHES = "source-hashes.csv"
"""The file among the bundled kernels that has older hashes of the same code."""


def bundled_kernels() -> Path:
    """Returns the folder of the kernels that gdnbench brings; of a job, the one that came with it."""
    if (origin := command_origin()) and origin.roots:
        return Path(origin.roots[0])
    package = Path(__file__).resolve().parent
    checkout = package.parent / "kernels"
    return checkout if checkout.is_dir() else package / "_kernels"


RESULTS = Path("results")
PROFILES = Path("profiles")
LEDGER = Path("ledger.jsonl")
"""The ledger beside the folder of runs; it is meant to be kept in the project's repository."""

EVIDENCE = "evidence"
"""The folder in the one of runs that holds those which pages quote; verbs read in it only what is named."""

CALIBRATIONS = "calibration"
"""The subfolder of runs that holds calibrations, one folder each."""

CACHE_VARIABLE = "GDNBENCH_CACHE"


def calibrations_folder() -> Path:
    """Returns the folder of the last calibration of each host and GPU model, in the user's state folder."""
    from platformdirs import user_state_path  # imported here: most verbs do not need it

    return user_state_path("gdnbench", appauthor=False) / CALIBRATIONS


def cache_root() -> Path:
    """Returns the folder of all that can be made again: `$GDNBENCH_CACHE`, else the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).resolve()
    from platformdirs import user_cache_path

    return user_cache_path("gdnbench")


def functions_folder() -> Path:
    """Where the ops that are made of functions are kept."""
    return cache_root() / "functions"


@contextmanager
def writing_cache(what: str) -> Iterator[None]:
    """Raises MachineError for an OSError below: gdnbench cannot write `what`, and the cache may have another folder."""
    try:
        yield
    except OSError as error:
        hint = f"set {CACHE_VARIABLE} to a folder that can be written"
        raise MachineError(f"cannot write {what}: {error.strerror}", hint) from error


def cached_folder(folder: Path, what: str, write: Callable[[Path], object]) -> Path:
    """A folder of the cache that is complete if it exists: `write` makes it under another name, and it is renamed.

    Of processes that make it at once the first wins. Its time says when it was last used. Raises MachineError, naming
    `what`, if it cannot be written.
    """
    import tempfile

    with writing_cache(what):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".", ignore_cleanup_errors=True) as aside:
                made = Path(aside, "made")
                write(made)
                try:
                    made.rename(folder)
                except OSError:
                    if not folder.is_dir():
                        raise
    with suppress(OSError):  # a read-only cache can still be read
        os.utime(folder)  # what was not used for longest is removed first
    return folder


def is_file(path: Path) -> bool:
    """Whether the file exists; False for an impossible name or a forbidden lookup."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for those


def is_folder(path: Path) -> bool:
    """Whether the folder exists; False for an impossible name or a forbidden lookup."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for those


def out_option(results: Path) -> tuple[str, ...]:
    """Returns the option for this folder of runs, by its name on the requesting machine; empty for the default."""
    if (origin := command_origin()) and results == RESULTS:
        results = Path(origin.results)
    return () if results == RESULTS else ("--out", str(results))


def on_option(command: Sequence[str]) -> tuple[str, ...]:
    """Returns the option that runs a gdnbench command on the target of this command.

    It is empty if the command needs no GPU, or this command runs on the machine where it was requested.
    """
    origin = command_origin()
    named = origin.target if origin and command[0] == "gdnbench" and VERBS[command[1]].gpu else ""
    return ("--on", named) if named else ()


def path_at_origin(path: Path) -> Path:
    """Maps a folder of runs or profiles, or a path in it, to its name on the machine that requested this command."""
    origin = command_origin()
    for usual, there in ((RESULTS, origin.results), (PROFILES, origin.profiles)) if origin else ():
        if path.is_relative_to(usual):
            return Path(there) / path.relative_to(usual)
    return path


def profiles_option(profiles: Path) -> tuple[str, ...]:
    """Returns the option that makes a verb use this folder of profiles, as `out_option` does for runs."""
    if (origin := command_origin()) and profiles == PROFILES:
        profiles = Path(origin.profiles)
    return () if profiles == PROFILES else ("--profiles", str(profiles))


def ledger_option(ledger: Path) -> tuple[str, ...]:
    """Returns the option that makes a verb use this ledger; empty for the default one."""
    return () if ledger == LEDGER else ("--ledger", str(ledger))


def with_folders(command: Sequence[str], results: Path, profiles: Path) -> tuple[str, ...]:
    """Adds the options of these folders of runs and profiles to a gdnbench command."""
    row = VERBS[command[1]] if command[:1] == ("gdnbench",) else None
    out = out_option(results) if row and row.runs else ()
    return (*command, *out, *(profiles_option(profiles) if row and row.profiles else ()))
