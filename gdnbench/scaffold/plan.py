"""What changes in a copy: in its declaration, and the name of its function throughout its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gdnbench.catalog import Entry
from gdnbench.errors import UsageError
from gdnbench.model import Params, ParamValue, Variant
from gdnbench.scaffold.declaration import Changes, rewrite
from gdnbench.scaffold.naming import entry_of, preset_of

DECLARATION = Path("variant.py")


def plan_changes(name: str, origin: Entry, variant: Variant, files: Mapping[Path, bytes]) -> Changes:
    """What makes `origin` the kernel `name`, with the variant's params as its defaults."""
    kernel = origin.kernel
    defaults = {param: value for param, value in variant.params.items() if value != kernel.params[param].default}
    # A preset that says no more than the new defaults would be measured twice.
    dropped = {
        preset for preset, values in kernel.presets.items() if defaults and values.items() <= variant.params.items()
    }
    return Changes(
        idea=f"Copy of {_in_words(variant.label)}: say here, in one line, what its idea is.",
        name=name,
        entry=_new_entry(name, origin, files),
        presets={
            preset: preset_of(preset, origin.op.name, kernel.name, name)
            for preset in kernel.presets
            if preset not in dropped
        },
        dropped=dropped,
        defaults=defaults,
    )


def apply_changes(origin: Entry, changes: Changes, files: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """The files with the changes made.

    Raises:
        UsageError: if the declaration computes what is to change, or is not UTF-8.
    """
    try:
        declaration = files[DECLARATION].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin.folder / DECLARATION} is not UTF-8", "save it as UTF-8 first") from error
    changed = {DECLARATION: rewrite(declaration, changes).encode()}
    if not changes.entry:
        return {**files, **changed}
    word, new = _word(origin.kernel.entry), changes.entry.encode()
    return {name: data if _is_binary(data) else word.sub(new, data) for name, data in files.items()} | changed


def _new_entry(name: str, origin: Entry, files: Mapping[Path, bytes]) -> str:
    """The function's new name; empty if it keeps its own, since nothing in it is to change or the new one is in use."""
    old = origin.kernel.entry
    new = entry_of(old, origin.kernel.name, name)
    is_here = Path(origin.kernel.source) in files
    is_taken = any(_word(new).search(data) for data in files.values())
    return new if new != old and is_here and not is_taken else ""


def _says_only(params: Params, values: Mapping[str, ParamValue]) -> bool:
    return all(str(params[param]) == str(value) for param, value in values.items())


def _in_words(label: str) -> str:
    """`decode-v4 with WARPS=4` for `decode-v4:WARPS=4`."""
    return label.replace(":", " with ", 1).replace(":", " ")


def _word(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\b" + re.escape(name).encode() + rb"\b")


def _is_binary(data: bytes) -> bool:
    return b"\0" in data
