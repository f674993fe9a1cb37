"""Picks what a model needs of `run`, `sweep` and `show`: a stored run, a joint table, a sweep, a step, or a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.mcp.result import call_of
from gdnbench.model.status import CLOCKS
from gdnbench.render.digest import Digest

Row = Mapping[str, Any]

_WIDEST = 100.0  # largest ratio of the ends of an interval
_LONG_LIST = 40  # characters; the column `workload` shortens longer ones
MOST_WARNINGS = 4
_MOST_TIED = 8
_FIELD = re.compile(r"(?:(?P<new>\w+)=)?(?P<old>\w+)(?:(?P<between>\.\.|:)(?P<high>\w+)|(?P<cut>~)(?P<most>\d*))?")


def present(**fields: Any) -> dict[str, Any]:
    """Returns the fields that have a value: no None, no empty text, list or table."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def pick(row: Row, names: str) -> dict[str, Any]:
    """Returns the named fields of a row that have a value; `new=old` gives the field `old` a new name.

    `text~300` is the first line of a text, cut to 300 characters (by default 160). `low..high` is an interval of a time
    or ratio, left out if its ends are unknown or too far apart to tell anything; `low:high` is left out if unknown.
    """
    fields: dict[str, Any] = {}
    for name in names.split():
        match = _FIELD.fullmatch(name)
        assert match
        value = row.get(match["old"])
        if match["cut"]:
            value = cut_text(value, int(match["most"] or 160))
        elif high := match["high"]:
            ends = [value, row.get(high)]
            value = None if None in ends else [float(end) for end in ends if end is not None]
            if value and match["between"] == ".." and value[1] > _WIDEST * value[0]:
                value = None
        fields[match["new"] or match["old"]] = value
    return present(**fields)


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
        names = list(rows[0]) if rows else []
        return cls(rows, names[names.index(before) + 1 : names.index(after)] if {before, after} <= set(names) else [])

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


def digest_run(document: Any, wanted: RowFilter) -> Digest:
    """Makes a row per case of what `run`, `sweep` or `show` printed.

    Raises UsageError for an axis that the run does not have, or a word that is in no workload of a step.
    """
    if "sweep" in document:
        return _digest_sweep(document, wanted)
    if "rows" in document:
        return _digest_step(document, wanted)
    if "measurements" in document:
        return _digest_cases(document, wanted)
    return Digest({"plan": document})  # --dry-run


def _stored(document: Row, wanted: RowFilter, name: str, rows: list[dict[str, Any]], **fields: Any) -> Digest:
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
    again = str(run.get("run_id") or " ".join(document.get("runs") or []))
    more = call_of("show", run=again, kernel=",".join(wanted.kernels), shape=wanted.shape, offset="{offset}")
    return Digest({**head, name: rows}, name, wanted.offset, more)


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
    mean = "kernel=label time_us over speedup interval=speedup_lo..speedup_hi verdict slower_at worst=worst_speedup"
    suite = document.get("suite")
    means = suite and [pick(row, f"{mean} worst_at=worst_workload") for row in suite["kernels"]]
    suite = suite and {"name": suite["name"], "weighted_geomeans": means}
    return _stored(document, wanted, "cases", digested, same_for_all=workloads.same, suite=suite)


def _case(row: Row, workloads: Workloads, clock: Row) -> dict[str, Any]:
    return present(
        kernel=row["label"],
        workload=workloads.format(row),
        role=None if row.get("role") == "kernel" else row.get("role"),
        **pick(row, "card status reason~300"),
        **pick(clock, "kernel_time_us=time_us kernel_sol=sol"),
        **pick(row, "time_us time_interval=time_lo_us..time_hi_us"),
        **pick(row, "speedup=vs_baseline speedup_interval=vs_lo..vs_hi verdict sol"),
        **pick(clock, "kernel_speedup=vs_baseline kernel_speedup_interval=vs_lo..vs_hi kernel_verdict=verdict"),
        **pick(row, "warnings~120"),
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
    rows = [
        {"point": point["label"], "workload": workloads.format(point)}
        | pick(point, "place slower_by interval=slower_lo:slower_hi")
        for point in wanted.choose(points, workloads)
    ]
    failed = [row for row in document["measurements"] if row["status"] != "ok"]
    return _stored(
        document,
        wanted,
        "points",
        rows,
        same_for_all=workloads.same,
        plateaus=plateaus,
        one_for_all=[present(**each) for each in sweep.get("one_for_all") or []],
        failed={row["label"]: f"{row['status']}: {cut_text(row.get('reason'))}" for row in failed[:_MOST_TIED]},
    )


_STEP = (
    "kernel=label workload path l2 status reason~ step_us interval=step_lo_us..step_hi_us kernels_us versus speedup"
    " speedup_interval=speedup_lo..speedup_hi verdict"
)
_LAUNCH = (
    "way arguments status reason~ host_us host_interval=host_lo_us..host_hi_us gap_us gap_interval=gap_lo_us..gap_hi_us"
)


def _digest_step(document: Row, wanted: RowFilter) -> Digest:
    rows: list[Row] = document["rows"]
    if any("way" in row for row in rows):  # --launches: ways of launching an empty kernel
        return _stored(document, wanted, "launches", [pick(row, _LAUNCH) for row in rows])
    words = set(wanted.shape.split())
    known = dict.fromkeys(word for row in rows for word in row["workload"].split())
    if unknown := words - known.keys():
        hint = f"its workloads are told in {', '.join(known)}"
        raise UsageError(f"shape: {min(unknown)!r} is in no workload of this step", hint)
    chosen = [row for row in rows if not row.get("is_again") and words <= set(row["workload"].split())]
    return _stored(document, wanted, "steps", [pick(row, _STEP) for row in chosen if wanted.names(row)])
