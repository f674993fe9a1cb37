"""Cuts a document for a language model: as many rows as fit, and a field `cut` that says what was left out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LIMIT_BYTES = 4096
"""Size limit of a result as JSON text in UTF-8."""

_DIGITS = 5
_LONGEST = 1500  # characters of a text
_MOST_WARNINGS = 5
_SMALL_BYTES = 40


@dataclass(frozen=True)
class Digest:
    """What a model needs of a verb's JSON, most important fields first.

    `rows` names the field that is a list of rows, whose last are left out if the result is too long, or is empty. The
    caller has seen `offset` rows; `more` is the call for further ones, with `{offset}` for the number seen by then.
    """

    fields: Mapping[str, Any]
    rows: str = ""
    offset: int = 0
    more: str = ""


def fit(
    head: Mapping[str, Any], digest: Digest, warnings: Sequence[str] = (), *, limit_bytes: int = LIMIT_BYTES
) -> dict[str, Any]:
    """Returns a result of at most `limit_bytes`; its field `cut` says what was left out, and how to get it."""
    warned = list(dict.fromkeys([*digest.fields.get("warnings", ()), *warnings]))[:_MOST_WARNINGS]
    fields = {**head, **digest.fields, **({"warnings": warned} if warned else {})}
    document: dict[str, Any] = {name: _plain(value) for name, value in fields.items()}
    rows = document.get(digest.rows)
    if isinstance(rows, list):
        document = _with_rows(document, digest, rows, limit_bytes)
    cuts = list(document.pop("cut", ()))
    while size_of({**document, "cut": cuts} if cuts else document) > limit_bytes:
        cuts = [*[cut for cut in cuts if not cut.startswith("too long:")], _halve_the_largest(document, cuts)]
    return {**document, "cut": cuts} if cuts else document


def to_text(document: Mapping[str, Any]) -> str:
    """Returns a result as JSON text."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def size_of(document: Mapping[str, Any]) -> int:
    """Returns the bytes of a result as JSON text."""
    return len(to_text(document).encode())


def _with_rows(document: dict[str, Any], digest: Digest, rows: list[Any], limit_bytes: int) -> dict[str, Any]:
    left = rows[digest.offset :]

    def of(count: int) -> dict[str, Any]:
        cut = f"{digest.rows}: {count} of {len(rows)} are here"
        cut += f", from number {digest.offset + 1} on" if digest.offset else ""
        seen = digest.offset + count
        cut += f"; for the others: {digest.more.format(offset=seen)}" if digest.more and seen < len(rows) else ""
        return {**document, digest.rows: left[:count], **({"cut": [cut]} if count < len(rows) else {})}

    count = len(left)
    while count > 1 and size_of(of(count)) > limit_bytes:
        count -= max(1, count // 16)
    return of(count)


def _halve_the_largest(document: dict[str, Any], cuts: Sequence[str]) -> str:
    """Leaves out half of the largest field; returns a text that names all fields halved so far."""
    name = max(
        (each for each in document if each not in {"exit_code"}), key=lambda each: size_of({each: document[each]})
    )
    document[name] = _half(document[name])
    before = next((cut.removeprefix("too long: ").split(", ") for cut in cuts if cut.startswith("too long:")), [])
    return "too long: " + ", ".join(dict.fromkeys([*before, name]))


def _half(value: Any) -> Any:
    if isinstance(value, str):
        half = value[: len(value) // 2].rstrip("…")
        return f"{half}…" if half else ""
    if isinstance(value, list | dict) and size_of({"": value}) < _SMALL_BYTES:
        return type(value)()
    if isinstance(value, list):
        return value[: len(value) // 2] if len(value) > 1 else [_half(each) for each in value]
    if isinstance(value, dict):
        half_of_it = list(value.items())[: len(value) // 2]
        return dict(half_of_it) if half_of_it else {name[:60]: _half(each) for name, each in value.items()}
    return None


def _plain(value: Any) -> Any:
    """Rounds numbers and cuts texts longer than a page; numbers that JSON lacks become null."""
    if isinstance(value, float):
        rounded = float(f"{value:.{_DIGITS}g}")
        return (int(rounded) if rounded.is_integer() else rounded) if math.isfinite(rounded) else None
    if isinstance(value, str):
        text = value.encode(errors="replace").decode()
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    if isinstance(value, Mapping):
        return {_plain(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
