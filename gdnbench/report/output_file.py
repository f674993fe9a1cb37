"""An output file that an option names: refused before the work begins, or written whole."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from gdnbench.errors import MachineError, UsageError


def check_output_file(path: Path, option: str, suffixes: Sequence[str], example: str) -> None:
    """Refuses a file, named by `option`, that could not be written.

    An existing file may be replaced, and a symbolic link stands for its target. `suffixes` are in lower case; `example`
    is a valid name for hints. Raises UsageError for another suffix, a missing folder, or anything but a regular file;
    MachineError for a folder or file that this user cannot write.
    """
    try:
        if path.is_dir():
            raise UsageError(f"{option} {path} is a folder", f"name a file in it: {option} {path / example}")
        if path.suffix.lower() not in suffixes:
            raise UsageError(f"{option} {path}: the name ends in {' or '.join(suffixes)}", f"as in {option} {example}")
        target = _target(path)
        for folder in (path.parent, target.parent):
            if not folder.is_dir():
                raise UsageError(f"{option} {path}: there is no folder {folder}", "make it first")
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(0, "it is read-only")
        with tempfile.TemporaryFile(dir=target.parent):
            pass  # only the attempt tells whether a file can be made there
    except OSError as error:
        raise _cannot_write(path, error) from error


def write_output_file(path: Path, content: bytes) -> None:
    """Writes a file in one step; on failure an existing file stays, and nothing is left beside it.

    A replaced file keeps its permissions, a symbolic link its target. Raises UsageError for anything but a regular
    file, MachineError if it cannot be written.
    """
    try:
        target = _target(path)
        temporary = target.with_name(f".gdnbench-{token_hex(8)}.new")
        try:
            with temporary.open("xb") as file:
                file.write(content)
            with suppress(OSError):  # no file yet, or a file system without permissions
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise _cannot_write(path, error) from error


def _target(path: Path) -> Path:
    """Resolves symbolic links; raises UsageError for anything but a regular file, which replacing would destroy."""
    target = Path(os.path.realpath(path))
    try:
        regular = stat.S_ISREG(target.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return target
    if not regular:
        raise UsageError(f"{path} is no regular file", "name one that is, or that does not exist yet")
    return target


def _cannot_write(path: Path, error: OSError) -> MachineError:
    hint = "name a file in a folder that you can write to, on a disk with room"
    return MachineError(f"cannot write {path}: {error.strerror or error}", hint)
