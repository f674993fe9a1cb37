"""Decodes stored text by a schema: checks every type and range, and names the field that does not fit.

A schema is a dataclass or a TypedDict whose fields carry their ranges, `Annotated[float, msgspec.Meta(gt=0)]`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
"""One line without control characters."""

Word = Annotated[str, msgspec.Meta(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]+\Z")]
"""A word without spaces: the name of a kernel, an op or a param."""

_PATTERN = re.compile(r"Expected `str` matching regex .*", re.DOTALL)
_PLACE = re.compile(r"(?P<why>.*?) - at `(?P<where>.*)`", re.DOTALL)


class SchemaError(ValueError):
    """A value does not fit its schema; the text names the field."""


def decode_json(text: bytes | str, schema: type[T]) -> T:
    """Decodes a JSON document by its schema and ignores fields that the schema lacks.

    Raises SchemaError if it is not JSON (NaN and infinity are not), or a field is missing, of a wrong type or out of
    range.
    """
    try:
        return msgspec.json.decode(text, type=schema)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SchemaError(_message(error)) from error
    except RecursionError as error:
        raise SchemaError("lists or objects are nested too deeply") from error


def convert(value: Any, schema: type[T]) -> T:
    """Converts a parsed document by its schema; raises SchemaError as `decode_json` does."""
    return _convert(value, schema, strict=True)


def convert_cells(cells: Mapping[str, str], schema: type[T]) -> T:
    """Converts a row of a CSV file by its schema; an empty cell is a missing field. Raises SchemaError."""
    return _convert({name: text for name, text in cells.items() if text}, schema, strict=False)


def _convert(value: Any, schema: type[T], *, strict: bool) -> T:
    try:
        return msgspec.convert(value, schema, strict=strict)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SchemaError(_message(error)) from error
    except RecursionError as error:
        raise SchemaError("lists or objects are nested too deeply") from error


def _message(error: Exception) -> str:
    """Returns `field: why` of msgspec's ``why - at `$.field` `` and ``why - at `key` in `$.field` ``."""
    found = _PLACE.fullmatch(str(error))
    why = _PATTERN.sub("Expected text of another form", found["why"] if found else str(error))
    where = found["where"].replace("` in `$.", " in ").removeprefix("$").removeprefix(".") if found else ""
    return f"{where}: {why}" if found else why


def finite(value: Any, *, named: bool = False) -> Any:
    """Replaces every number that is not finite, which JSON does not have, with None or, if `named`, its name: `inf`."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) if named else None
    if isinstance(value, dict):
        return {key: finite(item, named=named) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item, named=named) for item in value]
    return value


def unpack(content: bytes) -> bytes:
    """What gzip packed; ValueError if it is damaged or cut off."""
    import gzip  # on demand, like zlib: most verbs read nothing packed
    import zlib

    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error
