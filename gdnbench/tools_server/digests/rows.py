"""What digests share: intervals, values that are there, workloads in the words that `shape` takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gdnbench.errors import UsageError

Row = Mapping[str, Any]

_WIDEST = 100.0  # the greater end, in terms of the smaller one
_LONG_LIST = 40  # characters; the column `workload` has longer ones shortened


def present(**fields: Any) -> dict[str, Any]:
    """The fields that have a value: no None, no empty text, list or table."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def pair(row: Row, low: str, high: str) -> list[float] | None:
    """The ends of an interval; None if one is not known."""
    first, last = row.get(low), row.get(high)
    return None if first is None or last is None else [float(first), float(last)]


def interval(row: Row, low: str, high: str) -> list[float] | None:
    """The ends of an interval of a time or a ratio; None, too, if they are so far apart that they tell nothing."""
    ends = pair(row, low, high)
    return None if ends is None or ends[1] > _WIDEST * ends[0] else ends


def cut_text(text: str | None, most: int = 160) -> str:
    """The first line of a text, not longer than so many characters."""
    first = (text or "").strip().partition("\n")[0]
    return first if len(first) <= most else first[: most - 1] + "…"


class Workloads:
    """The workloads of some rows in words: what differs between them, for what is the same need not be repeated.

    Args:
        rows: each has the sizes under the axes' names.
        axes: the axes and lists, in the op's order.
    """

    def __init__(self, rows: Sequence[Row], axes: Sequence[str]) -> None:
        sizes = {axis: {str(row.get(axis)) for row in rows} for axis in axes}
        differing = [axis for axis in axes if len(sizes[axis]) > 1]
        lists = [axis for axis in axes if any(isinstance(row.get(axis), str) for row in rows)]
        self._axes = list(axes)
        self._told = differing or lists or list(axes[:1])
        self.same = " ".join(f"{axis}={_size(rows[0], axis)}" for axis in axes if rows and axis not in self._told)

    def tell(self, row: Row) -> str:
        """A row's workload, as the parameter `shape` takes it."""
        return " ".join(f"{axis}={_size(row, axis)}" for axis in self._told)

    def choose(self, rows: Iterable[Row], shape: str) -> list[Row]:
        """The rows whose sizes are among those of `B=1,8 HQ=4`.

        Raises:
            UsageError: for an axis that is none of theirs.
        """
        wanted: dict[str, list[str]] = {}
        for part in shape.split():
            axis, _, sizes = part.partition("=")
            if axis not in self._axes:
                raise UsageError(f"shape: {axis!r} is no axis of this run", f"its axes are {', '.join(self._axes)}")
            wanted.setdefault(axis, []).extend(sizes.split(","))
        return [row for row in rows if all(_size(row, axis) in sizes for axis, sizes in wanted.items())]


def axes_between(row: Row, before: str, after: str, but: Sequence[str] = ()) -> list[str]:
    """The columns between two others: where the axes of a row stand."""
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
