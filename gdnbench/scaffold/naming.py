"""What a new kernel is called, and what is named after it: its folder, its presets, its function."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdnbench.errors import UsageError

_REST = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def op_named_by(name: str, ops: Iterable[str]) -> str:
    """The op whose kernel `name` would be: `decode` of `decode-mine`.

    Raises:
        UsageError: if it is not the name of any op's kernel.
    """
    known = list(ops)
    for op in sorted(known, key=len, reverse=True):
        if name.startswith(f"{op}-") and _REST.fullmatch(name.removeprefix(f"{op}-")):
            return op
    beginnings = " or ".join(f"{op}-" for op in known)
    raise UsageError(
        f"{name!r} is not a kernel's name",
        f"a name begins with {beginnings}; lower-case letters, digits and single dashes follow, as in decode-mine",
    )


def folder_of(name: str, op: str) -> str:
    """The name of its folder: `floor_copy` for `decode-floor-copy`."""
    return _identifier(name.removeprefix(f"{op}-"))


def preset_of(preset: str, op: str, old: str, new: str) -> str:
    """A preset's new name: `decode-v4b` becomes `decode-mineb`.

    One that does not begin with its kernel's name is put behind the new one: `decode-wide` becomes `decode-mine-wide`.
    """
    if preset.startswith(old):
        return new + preset.removeprefix(old)
    return f"{new}-{preset.removeprefix(f'{op}-')}"


def entry_of(entry: str, old: str, new: str) -> str:
    """The function's new name: `gdn_decode_v4` becomes `gdn_decode_mine`; one without the old name in it stays."""
    carried = re.escape(_identifier(old))
    return re.sub(rf"(?<![A-Za-z0-9]){carried}(?![A-Za-z0-9])", _identifier(new), entry)


def _identifier(name: str) -> str:
    return name.replace("-", "_")
