"""Which of a project's `gdnbench.toml` may choose where a command runs: those that the user confirmed.

A target names a host and an interpreter, and `--gpu h200` alone may pick one. The user's own file is theirs. That of a
project is used unasked only while it is as it was when the user confirmed it, as direnv has it with `.envrc`. `--on`
names the target, and needs no confirmation.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from gdnbench.elsewhere.targets import MOST_BYTES, NamedTarget, user_config
from gdnbench.errors import MachineError, UsageError
from gdnbench.regular_file import read_regular_text

NAME = "trusted-targets.txt"


def is_trusted(path: Path) -> bool:
    """Whether a file of targets is the user's own, or was confirmed as it is now."""
    return path == user_config() or (not _not_ones_own(path) and _line(path) in _confirmed())


def trust(path: Path) -> None:
    """Confirms a project's file as it is now.

    Raises:
        UsageError: if it is another user's, or everybody may write it.
        MachineError: if it cannot be read, or the confirmation cannot be kept.
    """
    if why := _not_ones_own(path):
        raise UsageError(f"{path} cannot be confirmed: {why}", f"chmod o-w {path}, or copy it")
    lines = [*_confirmed(), _line(path)]
    kept = _kept()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)), encoding="utf-8")
    except OSError as error:
        raise MachineError(f"{kept} cannot be written: {error.strerror or error}", "see `gdnbench doctor`") from error


def check_trusted(named: NamedTarget, gpu: str) -> None:
    """Refuses a target that nobody named, of a file that the user has not confirmed.

    Raises:
        UsageError: saying how to confirm it, or to name the target.
    """
    if not is_trusted(named.file):
        where = f"{named.name} ({named.described})"
        raise UsageError(
            f"--gpu {gpu} would run on {where}: {named.file} says so, and you have not confirmed it",
            f"read it, then: gdnbench targets trust; or name the target: --on {named.name}",
        )


def _not_ones_own(path: Path) -> str:
    try:
        found = path.stat()
    except OSError as error:
        return error.strerror or str(error)
    if found.st_uid != os.getuid():
        return "it is another user's"
    return "everybody may write it" if found.st_mode & stat.S_IWOTH else ""


def _line(path: Path) -> str:
    digest = hashlib.sha256(read_regular_text(path, MOST_BYTES).encode()).hexdigest()
    return f"{digest} {path.resolve()}"


def _confirmed() -> list[str]:
    try:
        return read_regular_text(_kept(), MOST_BYTES).splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _kept() -> Path:
    from platformdirs import user_state_path

    return user_state_path("gdnbench", appauthor=False) / NAME
