"""Makes a command of a tool's parameters; refuses values that lead outside the project, or look like options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.places import EVIDENCE, LEDGER, PROFILES, RESULTS
from gdnbench.store.find import PUBLISHED_FOLDER, name_runs

FOLDERS = (RESULTS, PROFILES, Path("kernels"))
"""The folders of files that a parameter may name, below the project's, which is the working folder."""

_LONGEST = 500  # characters
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SEPARATOR = re.compile(r"[,\s]+")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./~^@{}-]*")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_GIT = "git:"


class Words:
    """The words of one command, in the order given; values are checked before they become words."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._options: list[str] = []
        self._arguments: list[str] = []

    @property
    def line(self) -> list[str]:
        """The words behind `gdnbench`: options as one word each, then arguments behind `--`, which ends the options."""
        return [self._verb, *self._options, *(("--", *self._arguments) if self._arguments else ())]

    def flag(self, name: str, *, wanted: bool = True) -> Words:
        """Adds an option without a value."""
        if wanted:
            self._options.append(f"--{name}")
        return self

    def option(self, name: str, value: str | float) -> Words:
        """Adds an option unless its value is empty or zero, the command's default; raises UsageError if refused."""
        if value:
            checked = check_name(value, name) if isinstance(value, str) else str(value)
            self._options.append(f"--{name}={checked}")
        return self

    def text(self, name: str, value: str) -> Words:
        """Adds an option with a checked sentence, unless it is empty."""
        if value:
            self._options.append(f"--{name}={value}")
        return self

    def label(self, value: str) -> Words:
        """Adds a part of a run's name; raises UsageError unless it has only letters, digits, '.', '-' and '_'."""
        if value and not _LABEL.fullmatch(value):
            raise UsageError("label: letters, digits, '.', '-' and '_' alone may be in it", 'as in label="wider-loads"')
        return self.option("label", value)

    def path(self, name: str, value: str) -> Words:
        """Adds an option with a file of the project; raises UsageError for any other file."""
        if value:
            self._options.append(f"--{name}={check_path(value, name)}")
        return self

    def revision(self, name: str, value: str) -> Words:
        """Adds an option with a checked revision."""
        self._options.append(f"--{name}={value}")
        return self

    def arguments(self, values: Iterable[str]) -> Words:
        """Adds checked arguments."""
        self._arguments += values
        return self


def split_names(text: str, what: str) -> list[str]:
    """Splits names at commas or spaces; raises UsageError for a refused one."""
    return [check_name(name, what) for name in _SEPARATOR.split(text.strip()) if name] if text.strip() else []


def check_name(value: str, what: str) -> str:
    """Returns a value that is a name or size, not an option or a path; raises UsageError, naming parameter `what`."""
    _check_text(value, what)
    if "/" in value or "\\" in value:
        raise UsageError(f"{what}: {value!r} is a path, and a name is needed", "the tool `list` has kernels' names")
    return value


def check_path(value: str, what: str) -> str:
    """Returns a path that lies in one of `FOLDERS`, wherever links lead; raises UsageError if it does not."""
    _check_text(value, what)
    _check_inside(Path(value), value, what)
    return value


def check_run(value: str, what: str) -> str:
    """Returns a run as `show` takes it: a name, `evidence/NAME`, or a path in the project's folder of runs.

    A name that no run has is passed on: the command has the error, with near names. Raises UsageError if the run lies
    elsewhere.
    """
    _check_text(value, what)
    if ("/" in value and not value.startswith(f"{EVIDENCE}/")) or Path(value).exists():
        return check_path(value, what)
    try:
        found = name_runs(RESULTS, value).runs
    except GdnbenchError:
        return value
    for run in found:
        _check_inside(run, value, what)
    return value


def check_newest() -> None:
    """Raises UsageError if any run lies outside the project's folders: without a name the newest is meant."""
    try:
        found = name_runs(RESULTS, "").runs
    except GdnbenchError:
        return  # the command has the error
    for run in found:
        _check_inside(run, run.name, "run")


def check_source(value: str, what: str) -> str:
    """Returns a source of `compare`: a run, `published/NAME`, `git:REV` or a path in the project; raises UsageError."""
    if value.startswith(_GIT):
        return check_revision(value, what)
    if value.startswith(f"{PUBLISHED_FOLDER}/"):
        _check_text(value, what)
        for place in (RESULTS, RESULTS / EVIDENCE):
            _check_inside(place / value, value, what)
        return value
    return check_run(value, what)


def check_revision(value: str, what: str) -> str:
    """Returns `git:REV`; raises UsageError unless REV is a plain name of a commit."""
    _check_text(value, what)
    if not _REVISION.fullmatch(value.removeprefix(_GIT)):
        raise UsageError(f"{what}: {value!r} names no commit", "as in git:HEAD~1")
    return value


def check_ledger() -> None:
    """Raises UsageError if a link leads the ledger, which is written, outside the project."""
    if not LEDGER.resolve().is_relative_to(Path.cwd().resolve()):
        raise UsageError(f"{LEDGER} leads outside the project's folder", "put the file itself there")


def check_text(value: str, what: str) -> str:
    """Returns a sentence, one word of the command; raises UsageError if it is too long, empty or not one line."""
    if len(value) > _LONGEST:
        raise UsageError(f"{what}: {len(value)} characters are too many", f"at most {_LONGEST}")
    if _CONTROL.search(value):
        raise UsageError(f"{what}: there is a control character in it", "give plain text in one line")
    if not value.strip():
        raise UsageError(f"{what}: an empty value", "leave the parameter out")
    return value


def _check_text(value: str, what: str) -> None:
    check_text(value, what)
    for part in _SEPARATOR.split(value):
        if part.startswith("-"):
            raise UsageError(f"{what}: {part!r} begins with a dash", "options are parameters of the tool")
        if ".." in part:
            raise UsageError(f"{what}: {part!r} has '..' in it", _inside_hint())


def _check_inside(path: Path, value: str, what: str) -> None:
    allowed: Sequence[Path] = [folder.resolve() for folder in FOLDERS]
    if not any(path.resolve().is_relative_to(folder) for folder in allowed):
        raise UsageError(f"{what}: {value!r} leads outside the project's folders", _inside_hint())


def _inside_hint() -> str:
    return f"give a name, or a path in {', '.join(f'{folder}/' for folder in FOLDERS)} of the project"
