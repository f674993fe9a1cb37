"""Picks what a model needs of `run`, `sweep` and `show`: a stored run, a joint table, a sweep, a step, or a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.mcp.tool import call_of
from gdnbench.model.status import CLOCKS
from gdnbench.render.digest import Digest

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


_MOST_WARNINGS = 4
_MOST_TIED = 8


@dataclass(frozen=True)
class RowFilter:
    """The requested rows: `kernels` are names and globs, `shape` sizes by axis, empty for all; `offset` skips rows."""

    kernels: tuple[str, ...] = ()
    shape: str = ""
    offset: int = 0

    def choose(self, rows: Sequence[Row], workloads: Workloads) -> list[Row]:
        """Returns the requested rows; raises UsageError for an unknown axis."""
        named = [row for row in rows if not self.kernels or any(_is_named(row, name) for name in self.kernels)]
        return workloads.choose(named, self.shape)

    def more(self, run: str) -> str:
        """Returns the call for the other rows of a run."""
        return call_of("show", run=run, kernel=",".join(self.kernels), shape=self.shape, offset="{offset}")


def digest_run(document: Any, asked: RowFilter) -> Digest:
    """Makes a row per case of what `run`, `sweep` or `show` printed.

    Raises UsageError for an axis that the run does not have, or a word that is in no workload of a step.
    """
    if "sweep" in document:
        return _digest_sweep(document, asked)
    if "rows" in document:
        return _digest_step(document, asked)
    if "measurements" in document:
        return _digest_cases(document, asked)
    return Digest({"plan": document})  # --dry-run


def _head(document: Mapping[str, Any]) -> dict[str, Any]:
    run = document.get("run") or {}
    warnings = [*(run.get("warnings") or []), *(document.get("warnings") or [])]
    settings = run.get("settings") or {}
    return present(
        run=run.get("run_id"),
        runs=document.get("runs"),
        op=run.get("op") or document.get("op"),
        gpu=run.get("gpu") or document.get("gpu"),
        complete=run.get("complete"),
        compared_with=run.get("baseline"),
        margin=settings.get("margin"),
        rounds=settings.get("rounds"),
        warnings=[cut_text(text) for text in warnings[:_MOST_WARNINGS]],
        left_out=document.get("left_out"),
    )


def _name(document: Mapping[str, Any]) -> str:
    run = document.get("run") or {}
    return str(run.get("run_id") or " ".join(document.get("runs") or []))


def _digest_cases(document: Mapping[str, Any], asked: RowFilter) -> Digest:
    rows: list[Row] = document["measurements"]
    workloads = Workloads(rows, _axes(document, rows))
    chosen = asked.choose(rows, workloads)
    clocks = {_key(row, workloads): row for row in chosen if row.get("timer") in CLOCKS[:1]}
    own = [row for row in chosen if row.get("timer") not in CLOCKS]
    own.sort(key=lambda row: row.get("role") in {"floor", "ablation"})  # stable: puts last what is left out first
    cases = [_case(row, workloads, clocks.get(_key(row, workloads), {})) for row in own]
    head = _head(document) | present(same_for_all=workloads.same, suite=_suite(document.get("suite")))
    return Digest({**head, "cases": cases}, "cases", asked.offset, asked.more(_name(document)))


def _case(row: Row, workloads: Workloads, clock: Row) -> dict[str, Any]:
    role = row.get("role")
    return present(
        kernel=row["label"],
        workload=workloads.tell(row),
        role=None if role == "kernel" else role,
        card=row.get("card"),
        status=row["status"],
        reason=cut_text(row.get("reason"), 300),
        kernel_time_us=clock.get("time_us"),
        kernel_sol=clock.get("sol"),
        time_us=row.get("time_us"),
        time_interval=interval(row, "time_lo_us", "time_hi_us"),
        speedup=row.get("vs_baseline"),
        speedup_interval=interval(row, "vs_lo", "vs_hi"),
        verdict=row.get("verdict"),
        sol=row.get("sol"),
        kernel_speedup=clock.get("vs_baseline"),
        kernel_speedup_interval=interval(clock, "vs_lo", "vs_hi"),
        kernel_verdict=clock.get("verdict"),
        warnings=cut_text(row.get("warnings"), 120),
    )


def _digest_sweep(document: Mapping[str, Any], asked: RowFilter) -> Digest:
    sweep = document["sweep"]
    points: list[Row] = [{**point, **point["shape"]} for point in sweep["points"]]
    workloads = Workloads(points, list(points[0]["shape"]) if points else [])
    bests = [{**plateau, **plateau["shape"], "label": plateau["best"]} for plateau in sweep["plateaus"]]
    plateaus = [
        present(
            kernel=best["kernel"],
            workload=workloads.tell(best),
            best=best["best"],
            simplest_of_the_best=best["simplest"],
            tied=best["tied"][:_MOST_TIED],
            tied_in_all=len(best["tied"]),
            not_clear=best["unclear"][:_MOST_TIED],
        )
        for best in workloads.choose(bests, asked.shape)
    ]
    rows = [
        present(
            point=point["label"],
            workload=workloads.tell(point),
            place=point["place"],
            slower_by=point["slower_by"],
            interval=pair(point, "slower_lo", "slower_hi"),
        )
        for point in asked.choose(points, workloads)
    ]
    failed = [row for row in document["measurements"] if row["status"] != "ok"]
    head = _head(document) | present(
        same_for_all=workloads.same,
        plateaus=plateaus,
        one_for_all=[present(**each) for each in sweep.get("one_for_all") or []],
        failed={row["label"]: f"{row['status']}: {cut_text(row.get('reason'))}" for row in failed[:_MOST_TIED]},
    )
    return Digest({**head, "points": rows}, "points", asked.offset, asked.more(_name(document)))


def _digest_step(document: Mapping[str, Any], asked: RowFilter) -> Digest:
    rows: list[Row] = document["rows"]
    if any("way" in row for row in rows):
        return _digest_launches(document, asked)
    named = RowFilter(asked.kernels).choose(rows, Workloads(rows, ["workload"]))
    wanted = set(asked.shape.split())
    known = dict.fromkeys(word for row in rows for word in row["workload"].split())
    if unknown := wanted - known.keys():
        there = f"its workloads are told in {', '.join(known)}"
        raise UsageError(f"shape: {min(unknown)!r} is in no workload of this step", there)
    chosen = [row for row in named if not row.get("is_again") and wanted <= set(row["workload"].split())]
    steps = [
        present(
            kernel=row["label"],
            workload=row["workload"],
            path=row["path"],
            l2=row["l2"],
            status=row["status"],
            reason=cut_text(row.get("reason")),
            step_us=row["step_us"],
            interval=interval(row, "step_lo_us", "step_hi_us"),
            kernels_us=row["kernels_us"],
            versus=row["versus"],
            speedup=row["speedup"],
            speedup_interval=interval(row, "speedup_lo", "speedup_hi"),
            verdict=row["verdict"],
        )
        for row in chosen
    ]
    return Digest({**_head(document), "steps": steps}, "steps", asked.offset, asked.more(_name(document)))


def _digest_launches(document: Mapping[str, Any], asked: RowFilter) -> Digest:
    """Makes, for `step --launches`, a row per way of launching an empty kernel."""
    ways = [
        present(
            way=row["way"],
            arguments=row["arguments"],
            status=row["status"],
            reason=cut_text(row.get("reason")),
            host_us=row["host_us"],
            host_interval=interval(row, "host_lo_us", "host_hi_us"),
            gap_us=row["gap_us"],
            gap_interval=interval(row, "gap_lo_us", "gap_hi_us"),
        )
        for row in document["rows"]
    ]
    return Digest({**_head(document), "launches": ways}, "launches", asked.offset, asked.more(_name(document)))


def _axes(document: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    cases = (document.get("run") or {}).get("cases") or []
    if cases:
        return list(cases[0]["shape"])
    return axes_between(rows[0], "workload", "timer") if rows else []


def _suite(suite: Any) -> dict[str, Any] | None:
    if not suite:
        return None
    kernels = [
        present(
            kernel=row["label"],
            time_us=row["time_us"],
            over=row["over"],
            speedup=row["speedup"],
            interval=interval(row, "speedup_lo", "speedup_hi"),
            verdict=row["verdict"],
            slower_at=row["slower_at"],
            worst=row["worst_speedup"],
            worst_at=row["worst_workload"],
        )
        for row in suite["kernels"]
    ]
    return {"name": suite["name"], "weighted_geomeans": kernels}


def _key(row: Row, workloads: Workloads) -> tuple[str, str, str]:
    return str(row["label"]), workloads.tell(row), str(row.get("card") or "")


def _is_named(row: Row, name: str) -> bool:
    return any(fnmatchcase(str(row.get(field) or ""), name) for field in ("label", "kernel", "preset"))
