"""Picks what a model needs of `run`, `sweep` and `show`: a stored run, a joint table, a sweep, a step, or a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.mcp.result import Digest
from gdnbench.model.status import CLOCKS

Row = Mapping[str, Any]

_WIDEST = 100.0  # largest ratio of the ends of an interval
_LONG_LIST = 40  # characters; the column `workload` shortens longer ones
MOST_WARNINGS = 4
_MOST_TIED = 8


def present(**fields: Any) -> dict[str, Any]:
    """Returns the fields that have a value: no None, no empty text, list or table."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def pick(row: Row, names: str) -> dict[str, Any]:
    """Returns the named fields of a row, separated by blanks; `new=old` gives the field `old` a new name."""
    pairs = (name.partition("=") for name in names.split())
    return present(**{new: row.get(old or new) for new, _, old in pairs})


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
        self._shown = differing or lists or list(axes[:1])
        self.same = " ".join(f"{axis}={_size(rows[0], axis)}" for axis in axes if rows and axis not in self._shown)

    @classmethod
    def between(cls, rows: Sequence[Row], before: str, after: str) -> Workloads:
        """Makes them of rows whose axes are the columns between two others."""
        return cls(rows, axes_between(rows[0], before, after) if rows else [])

    def format(self, row: Row) -> str:
        """Returns a row's workload, as the parameter `shape` takes it."""
        return " ".join(f"{axis}={_size(row, axis)}" for axis in self._shown)

    def choose(self, rows: Iterable[Row], shape: str) -> list[Row]:
        """Returns the rows whose sizes are among those of `B=1,8 HQ=4`; raises UsageError for an unknown axis."""
        wanted: dict[str, list[str]] = {}
        for part in shape.split():
            axis, _, sizes = part.partition("=")
            if axis not in self._axes:
                raise UsageError(f"shape: {axis!r} is no axis of this run", f"its axes are {', '.join(self._axes)}")
            wanted.setdefault(axis, []).extend(sizes.split(","))
        return [row for row in rows if all(_size(row, axis) in sizes for axis, sizes in wanted.items())]


def axes_between(row: Row, before: str, after: str) -> list[str]:
    """Returns the columns between two others, which are the axes of a row."""
    names = list(row)
    return names[names.index(before) + 1 : names.index(after)] if {before, after} <= set(names) else []


def _size(row: Row, axis: str) -> str:
    size = str(row.get(axis))
    if len(size) <= _LONG_LIST:
        return size
    parts = str(row.get("workload") or "").split("_")
    short = (match["size"] for part in parts if (match := re.fullmatch(rf"{re.escape(axis)}(?P<size>\d.*)", part)))
    return next(short, f"{size[: _LONG_LIST - 1]}…")


@dataclass(frozen=True)
class RowFilter:
    """The requested rows: `kernels` are names and globs, `shape` sizes by axis, empty for all; `offset` skips rows."""

    kernels: tuple[str, ...] = ()
    shape: str = ""
    offset: int = 0

    def choose(self, rows: Sequence[Row], workloads: Workloads) -> list[Row]:
        """Returns the requested rows; raises UsageError for an unknown axis."""
        return workloads.choose([row for row in rows if self.names(row)], self.shape)

    def names(self, row: Row) -> bool:
        """Whether the row's kernel is requested."""
        own = [str(row.get(field) or "") for field in ("label", "kernel", "preset")]
        return not self.kernels or any(fnmatchcase(each, name) for name in self.kernels for each in own)

    def more(self, run: str) -> str:
        """Returns the call for the other rows of a run."""
        return call_of("show", run=run, kernel=",".join(self.kernels), shape=self.shape, offset="{offset}")


def call_of(name: str, **arguments: object) -> str:
    """Formats a call for a model, `show(run="main", offset="12")`, without empty arguments."""
    filled = ", ".join(
        f"{key}={value}" if isinstance(value, int) else f'{key}="{value}"' for key, value in arguments.items() if value
    )
    return f"{name}({filled})".replace('"{offset}"', "{offset}")


def digest_run(document: Any, rows: RowFilter) -> Digest:
    """Makes a row per case of what `run`, `sweep` or `show` printed.

    Raises UsageError for an axis that the run does not have, or a word that is in no workload of a step.
    """
    if "sweep" in document:
        return _digest_sweep(document, rows)
    if "rows" in document:
        return _digest_step(document, rows)
    if "measurements" in document:
        return _digest_cases(document, rows)
    return Digest({"plan": document})  # --dry-run


def _stored(document: Row, rows: RowFilter, name: str, digested: list[dict[str, Any]], **fields: Any) -> Digest:
    """Makes the digest of a stored run: what heads it, further fields, and its rows under `name`."""
    run = document.get("run") or {}
    warnings = [*(run.get("warnings") or []), *(document.get("warnings") or [])]
    head = present(
        run=run.get("run_id"),
        runs=document.get("runs"),
        op=run.get("op") or document.get("op"),
        gpu=run.get("gpu") or document.get("gpu"),
        **pick(run, "complete compared_with=baseline"),
        **pick(run.get("settings") or {}, "margin rounds"),
        warnings=[cut_text(text) for text in warnings[:MOST_WARNINGS]],
        left_out=document.get("left_out"),
        **fields,
    )
    more = rows.more(str(run.get("run_id") or " ".join(document.get("runs") or [])))
    return Digest({**head, name: digested}, name, rows.offset, more)


def _digest_cases(document: Row, wanted: RowFilter) -> Digest:
    rows: list[Row] = document["measurements"]
    cases = (document.get("run") or {}).get("cases") or []
    workloads = Workloads(rows, list(cases[0]["shape"])) if cases else Workloads.between(rows, "workload", "timer")

    def key(row: Row) -> tuple[str, str, str]:
        return str(row["label"]), workloads.format(row), str(row.get("card") or "")

    chosen = wanted.choose(rows, workloads)
    clocks = {key(row): row for row in chosen if row.get("timer") in CLOCKS[:1]}
    own = [row for row in chosen if row.get("timer") not in CLOCKS]
    own.sort(key=lambda row: row.get("role") in {"floor", "ablation"})  # stable: puts last what is left out first
    digested = [_case(row, workloads, clocks.get(key(row), {})) for row in own]
    suite = document.get("suite")
    means = suite and {"name": suite["name"], "weighted_geomeans": list(map(_mean, suite["kernels"]))}
    return _stored(document, wanted, "cases", digested, same_for_all=workloads.same, suite=means)


def _case(row: Row, workloads: Workloads, clock: Row) -> dict[str, Any]:
    return present(
        kernel=row["label"],
        workload=workloads.format(row),
        role=None if row.get("role") == "kernel" else row.get("role"),
        **pick(row, "card status"),
        reason=cut_text(row.get("reason"), 300),
        **pick(clock, "kernel_time_us=time_us kernel_sol=sol"),
        time_us=row.get("time_us"),
        time_interval=interval(row, "time_lo_us", "time_hi_us"),
        speedup=row.get("vs_baseline"),
        speedup_interval=interval(row, "vs_lo", "vs_hi"),
        **pick(row, "verdict sol"),
        kernel_speedup=clock.get("vs_baseline"),
        kernel_speedup_interval=interval(clock, "vs_lo", "vs_hi"),
        kernel_verdict=clock.get("verdict"),
        warnings=cut_text(row.get("warnings"), 120),
    )


def _mean(row: Row) -> dict[str, Any]:
    return present(
        **pick(row, "kernel=label time_us over speedup"),
        interval=interval(row, "speedup_lo", "speedup_hi"),
        **pick(row, "verdict slower_at worst=worst_speedup worst_at=worst_workload"),
    )


def _digest_sweep(document: Row, wanted: RowFilter) -> Digest:
    sweep = document["sweep"]
    points: list[Row] = [{**point, **point["shape"]} for point in sweep["points"]]
    workloads = Workloads(points, list(points[0]["shape"]) if points else [])
    bests = [{**plateau, **plateau["shape"], "label": plateau["best"]} for plateau in sweep["plateaus"]]
    plateaus = [
        present(
            kernel=best["kernel"],
            workload=workloads.format(best),
            **pick(best, "best simplest_of_the_best=simplest"),
            tied=best["tied"][:_MOST_TIED],
            tied_in_all=len(best["tied"]),
            not_clear=best["unclear"][:_MOST_TIED],
        )
        for best in workloads.choose(bests, wanted.shape)
    ]
    digested = [
        present(
            point=point["label"],
            workload=workloads.format(point),
            **pick(point, "place slower_by"),
            interval=pair(point, "slower_lo", "slower_hi"),
        )
        for point in wanted.choose(points, workloads)
    ]
    failed = [row for row in document["measurements"] if row["status"] != "ok"]
    return _stored(
        document,
        wanted,
        "points",
        digested,
        same_for_all=workloads.same,
        plateaus=plateaus,
        one_for_all=[present(**each) for each in sweep.get("one_for_all") or []],
        failed={row["label"]: f"{row['status']}: {cut_text(row.get('reason'))}" for row in failed[:_MOST_TIED]},
    )


def _digest_step(document: Row, wanted: RowFilter) -> Digest:
    rows: list[Row] = document["rows"]
    if any("way" in row for row in rows):
        return _stored(document, wanted, "launches", list(map(_launch, rows)))
    words = set(wanted.shape.split())
    known = dict.fromkeys(word for row in rows for word in row["workload"].split())
    if unknown := words - known.keys():
        hint = f"its workloads are told in {', '.join(known)}"
        raise UsageError(f"shape: {min(unknown)!r} is in no workload of this step", hint)
    chosen = [row for row in rows if not row.get("is_again") and words <= set(row["workload"].split())]
    steps = [
        present(
            **pick(row, "kernel=label workload path l2 status"),
            reason=cut_text(row.get("reason")),
            step_us=row["step_us"],
            interval=interval(row, "step_lo_us", "step_hi_us"),
            **pick(row, "kernels_us versus speedup"),
            speedup_interval=interval(row, "speedup_lo", "speedup_hi"),
            verdict=row["verdict"],
        )
        for row in chosen
        if wanted.names(row)
    ]
    return _stored(document, wanted, "steps", steps)


def _launch(row: Row) -> dict[str, Any]:
    """Makes a row of `step --launches`: a way of launching an empty kernel."""
    return present(
        **pick(row, "way arguments status"),
        reason=cut_text(row.get("reason")),
        host_us=row["host_us"],
        host_interval=interval(row, "host_lo_us", "host_hi_us"),
        gap_us=row["gap_us"],
        gap_interval=interval(row, "gap_lo_us", "gap_hi_us"),
    )
