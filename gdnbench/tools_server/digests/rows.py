"""Helpers of digests: intervals, present values, and workloads in the words that `shape` takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gdnbench.errors import UsageError

Row = Mapping[str, Any]

_WIDEST = 100.0  # largest ratio of the ends of an interval
_LONG_LIST = 40  # characters; the column `workload` shortens longer ones


def present(**fields: Any) -> dict[str, Any]:
    """Returns the fields that have a value: no None, no empty text, list or table."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def pair(row: Row, low: str, high: str) -> list[float] | None:
    """Returns the ends of an interval, or None if one is unknown."""
    first, last = row.get(low), row.get(high)
    return None if first is None or last is None else [float(first), float(last)]


def interval(row: Row, low: str, high: str) -> list[float] | None:
    """Returns the ends of an interval of a time or ratio, or None if unknown or too far apart to tell anything."""
    ends = pair(row, low, high)
    return None if ends is None or ends[1] > _WIDEST * ends[0] else ends


def cut_text(text: str | None, most: int = 160) -> str:
    """Returns the first line of a text, cut to `most` characters."""
    first = (text or "").strip().partition("\n")[0]
    return first if len(first) <= most else first[: most - 1] + "…"


class Workloads:
    """Describes the workloads of some rows by the axes that differ; the others are in `same`.

    `rows` have the sizes under the axes' names; `axes` has axes and lists, in the op's order.
    """

    def __init__(self, rows: Sequence[Row], axes: Sequence[str]) -> None:
        sizes = {axis: {str(row.get(axis)) for row in rows} for axis in axes}
        differing = [axis for axis in axes if len(sizes[axis]) > 1]
        lists = [axis for axis in axes if any(isinstance(row.get(axis), str) for row in rows)]
        self._axes = list(axes)
        self._told = differing or lists or list(axes[:1])
        self.same = " ".join(f"{axis}={_size(rows[0], axis)}" for axis in axes if rows and axis not in self._told)

    def tell(self, row: Row) -> str:
        """Returns a row's workload, as the parameter `shape` takes it."""
        return " ".join(f"{axis}={_size(row, axis)}" for axis in self._told)

    def choose(self, rows: Iterable[Row], shape: str) -> list[Row]:
        """Returns the rows whose sizes are among those of `B=1,8 HQ=4`; raises UsageError for an unknown axis."""
        wanted: dict[str, list[str]] = {}
        for part in shape.split():
            axis, _, sizes = part.partition("=")
            if axis not in self._axes:
                raise UsageError(f"shape: {axis!r} is no axis of this run", f"its axes are {', '.join(self._axes)}")
            wanted.setdefault(axis, []).extend(sizes.split(","))
        return [row for row in rows if all(_size(row, axis) in sizes for axis, sizes in wanted.items())]


def axes_between(row: Row, before: str, after: str, but: Sequence[str] = ()) -> list[str]:
    """Returns the columns between two others, which are the axes of a row."""
    names = list(row)
    if before not in names or after not in names:
        return []
    return [name for name in names[names.index(before) + 1 : names.index(after)] if name not in but]


def _size(row: Row, axis: str) -> str:
    size = str(row.get(axis))
    if len(size) <= _LONG_LIST:
        return size
    parts = str(row.get("workload") or "").split("_")
    short = (found["size"] for part in parts if (found := re.fullmatch(rf"{re.escape(axis)}(?P<size>\d.*)", part)))
    return next(short, f"{size[: _LONG_LIST - 1]}…")
