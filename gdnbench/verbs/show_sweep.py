"""Prints a stored sweep: the best points per kernel and workload, failures, a declaration to paste."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.text import Text

from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.measurement import Measurement, OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload, label_slug
from gdnbench.render.console import print_text
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, plain_rows
from gdnbench.render.text import TextTable
from gdnbench.render.units import count_text, params_text, percent, plus_minus, time_unit
from gdnbench.store.info import RunInfo, info_document
from gdnbench.store.measurements import measurement_row, read_run
from gdnbench.store.tables import read_builds, read_sweep
from gdnbench.verbs.measured_columns import PLACE_WORDS
from gdnbench.verbs.run_notes import control_lines, next_words, stored_note, warning_notes
from gdnbench.verbs.run_tables import build_blocks
from gdnbench.wording import first_line

MOST_ROWS = 12  # points in a table, unless more tie

_STYLES = {Place.BEST: "bold green", Place.TIED: "green", Place.UNCLEAR: "yellow", Place.SLOWER: ""}

_Rows = Mapping[tuple[str, Workload], Measurement]


def print_sweep(folder: Path, *, json: bool, csv: bool, dispatch: bool) -> None:
    """Reads a sweep's folder and prints it; `dispatch`: a declaration of each workload's best point instead."""
    (info, measurements), sweep = read_run(folder), read_sweep(folder)
    if sweep is None:
        raise UsageError(f"{info.run_id} is not a sweep", "`gdnbench sweep` makes one: see `gdnbench sweep -h`")
    rows_of = {(row.case.label, row.case.workload) for row in measurements}
    if not all((point.label, point.workload) in rows_of for point in sweep.points):
        raise RunFormatError(f"{folder}: sweep.json and measurements.csv differ", "the sweep is damaged; sweep anew")
    if dispatch:
        print_text(_dispatch_text(info, sweep))
        return
    answer = Answer(
        text=lambda width: _text(info, sweep, measurements, folder, width),
        document=lambda: {
            "run": info_document(info),
            "sweep": sweep.to_dict(),
            "measurements": [measurement_row(info, row) for row in measurements],
        },
        records=lambda: _records(info, measurements, sweep),
        next=next_words(info, folder, "--emit-dispatch" if sweep.plateaus else "--csv"),
    )
    print_answer(answer, json=json, csv=csv)


def _text(
    info: RunInfo, sweep: Sweep, measurements: Sequence[Measurement], folder: Path, width: int
) -> Iterator[Block]:
    rows = {(row.case.label, row.case.workload): row for row in measurements}
    yield _headline(info, sweep, measurements)
    yield from warning_notes(info.warnings)
    for plateau in sweep.plateaus:
        yield ""
        yield _table(sweep, plateau, rows, width)
    for workload in dict.fromkeys(point.workload for point in sweep.finals):
        yield ""
        finals = [
            (f"{point.kernel} {params_text(point.params, [*sweep.axes[point.kernel]])}", _slower(point), _place(point))
            for point in sweep.final(workload)
        ]
        yield plain_rows(finals, title=f"the kernels at {workload}")
    yield from _infeasible([row for row in measurements if row.case.is_point_of(sweep.axes)])
    yield from control_lines(measurements, workloads=True)
    builds = read_builds(folder)
    if builds and not info.on_gpu:
        yield from build_blocks(builds)
    yield ""
    confidence, margin = f"{info.settings['confidence']:.0%}", f"{info.settings['margin']:.2%}"
    yield Note(
        f"slower by: time over the best point's, paired by round; ±: {confidence} interval for the whole race.\n"
        f"TIES: within {margin} of the best. A point that is SLOWER leaves the race, so it has fewer rounds.",
        "meaning",
    )
    yield from (_one_for_all(sweep, one) for one in sweep.one_for_all)
    yield stored_note(folder, width)


def _headline(info: RunInfo, sweep: Sweep, measurements: Sequence[Measurement]) -> Text:
    gpu = info.machine.get("gpu") or {}
    count = sum(row.case.is_point_of(sweep.axes) for row in measurements)
    text = Text(f"sweep on {gpu.get('name') or 'the CPU (no GPU here, or none wanted)'}", style="bold")
    text.append(f": {count} points: {sweep.tried}", style="not bold")
    if not info.complete:
        text.append("  (partial)", style="bold yellow")
    return text


def _table(sweep: Sweep, plateau: Plateau, rows: _Rows, width: int) -> Table[Point]:
    """Makes a row per point of a plateau, fastest first; what its build takes where all of that has room."""
    points, names = sweep.of(plateau), list(sweep.axes[plateau.kernel])
    shown = points[: max(MOST_ROWS, len(plateau.tied))]
    measured = {id(point): rows[point.label, point.workload] for point in points}
    timings = [measured[id(point)].timing for point in shown]
    unit = time_unit(timing.time_us for timing in timings if timing)

    def time(point: Point) -> str:
        timing = measured[id(point)].timing
        return unit.text(timing.time_us, 3) if timing else ""

    def param(name: str) -> Column[Point]:
        return Column("", lambda point: str(point.params[name]), name, right=True)

    columns: list[Column[Point]] = [
        *map(param, names),
        Column("", time, f"time {unit.name}", right=True),
        Column("", _slower, "slower by", right=True),
        Column("", _place, " "),
        Column("", lambda point: point.rounds, "rounds", right=True, drop=1),
    ]
    builds: list[Column[Point]] = [
        Column("", lambda point: count_text(measured[id(point)].registers), "regs", right=True),
        Column("", lambda point: count_text(measured[id(point)].spill_bytes), "spill", right=True),
        Column("", lambda point: count_text(measured[id(point)].shared_bytes), "smem", right=True),
    ]
    notes = [Note(_answer(sweep, plateau, names, rows))]
    if len(points) > len(shown):
        more = f"… and {len(points) - len(shown)} more, up to {points[-1].slower_by:.0%} slower"
        notes.insert(0, Note(more, "legend"))
    table = Table([*columns, *builds], shown, f"{plateau.kernel}  {plateau.workload}", notes)
    return table if TextTable(table).width <= width else replace(table, columns=columns)


def _place(point: Point) -> Text:
    return Text(PLACE_WORDS[point.place], style=_STYLES[point.place])


def _slower(point: Point) -> str:
    if point.place is Place.BEST:
        return ""
    return percent(point.slower_by) + plus_minus((point.slower_hi - point.slower_lo) / 2)


def _answer(sweep: Sweep, plateau: Plateau, names: Sequence[str], rows: _Rows) -> Text:
    simplest = params_text(sweep.point(plateau, plateau.simplest).params, names)
    if len(plateau.tied) > 1:
        text = Text(f"{len(plateau.tied)} points tie within {percent(plateau.within)}; the simplest is {simplest}")
    else:
        text = Text(f"the best is {simplest}")
    if plateau.unclear:
        text.append(f"; {len(plateau.unclear)} more may tie: a larger --budget would tell", "yellow")
    versus = rows[plateau.simplest, plateau.workload].versus
    if versus:
        change = versus.speedup - 1.0
        apart = percent(abs(change)) + plus_minus((versus.high - versus.low) / 2)
        than = f"{apart} {'faster' if change >= 0 else 'slower'} than {versus.baseline}"
        text.append(f"\n{than} ({versus.verdict.upper()})")
    text.stylize("bold", 0, len(text.plain.partition("\n")[0]))
    return text


def _one_for_all(sweep: Sweep, one: OneForAll) -> Text:
    workload, worst = one.worst
    cost = f"costs at most {percent(worst)} ({workload}), {percent(one.mean)} on average" if worst else "is the best"
    point = params_text(sweep.chosen(one).params, [*sweep.axes[one.kernel]])
    return Text(f"{one.kernel}, one point for every shape: {point} {cost}", style="bold")


def _infeasible(points: Sequence[Measurement]) -> Iterator[Block]:
    grouped: dict[tuple[str, Status, str], list[str]] = {}
    counts = Counter(row.case.variant.kernel for row in points)
    for row in points:
        if row.status is not Status.OK:
            key = (row.case.variant.kernel, row.status, first_line(row.reason))
            grouped.setdefault(key, []).append(f"{row.case.variant.label.partition(':')[2]} at {row.case.workload}")
    if grouped:
        yield ""
    for (kernel, status, reason), labels in grouped.items():
        some = ", ".join(labels[:3]) + (" …" if len(labels) > 3 else "")
        which = "every point" if len(labels) == counts[kernel] else f"{len(labels)} points ({some})"
        style = "yellow" if status.is_failure else "dim"
        yield Text.assemble((status.value, style), f"  {kernel}, {which}: {reason}")


def _records(info: RunInfo, measurements: Sequence[Measurement], sweep: Sweep) -> list[dict[str, Any]]:
    points = {(point.label, point.workload): point for point in sweep.points}
    return [
        {**measurement_row(info, row), **_place_fields(points.get((row.case.label, row.case.workload)))}
        for row in measurements
        if row.case.is_point_of(sweep.axes)
    ]


def _place_fields(point: Point | None) -> dict[str, Any]:
    names = ("place", "slower_by", "slower_lo", "slower_hi")
    return {name: getattr(point, name) if point else None for name in names}


def _dispatch_text(info: RunInfo, sweep: Sweep) -> str:
    """Returns the best point of each workload, and the run that found it; raises UsageError if no point has a time.

    If several kernels raced it is TOML for `dispatch.toml`: a table per head layout, with the kernels that tie or may
    tie in a comment. For one kernel, or a floor, which no dispatcher picks, it is Python for the kernel's `variant.py`.
    """
    if not sweep.plateaus:
        raise UsageError(f"no point of {info.run_id} has a time", f"gdnbench show {info.run_id} says why")
    if sweep.finals:
        return _dispatcher_table(info, sweep)
    kernels = dict.fromkeys(plateau.kernel for plateau in sweep.plateaus)
    return "\n".join(_declaration(info, sweep, kernel) for kernel in kernels)


def _declaration(info: RunInfo, sweep: Sweep, kernel: str) -> str:
    plateaus = [plateau for plateau in sweep.plateaus if plateau.kernel == kernel]
    lines = [f"    # {kernel} on {info.device}: {info.run_id}", "    by_shape={"]
    points = {plateau.workload: _params(sweep, plateau) for plateau in plateaus}
    lines += [f"        {_partial(workload)}: {params}," for workload, params in _needed(points).items()]
    lines += ["    },"]
    for one in sweep.one_for_all:
        if one.kernel == kernel:
            workload, worst = one.worst
            params = params_text(sweep.chosen(one).params, [*sweep.axes[kernel]])
            cost = f"at most {worst:.1%} slower ({workload}), {one.mean:.1%} on average"
            lines.append(f"    # or for every shape {params}: {cost}")
    return "\n".join(lines)


def _needed(points: dict[Workload, str]) -> dict[Workload, str]:
    """Drops workloads between two with the same point: a kernel takes the point of the nearest workload."""
    workloads = sorted(points, key=lambda workload: (workload.size, workload))
    neighbours = zip([None, *workloads], workloads, [*workloads[1:], None], strict=False)
    return {
        workload: points[workload]
        for before, workload, after in neighbours
        if before is None or after is None or not points[before] == points[workload] == points[after]
    }


def _params(sweep: Sweep, plateau: Plateau) -> str:
    point = sweep.point(plateau, plateau.simplest)
    return "{" + ", ".join(f'"{name}": {json.dumps(value)}' for name, value in point.params.items()) + "}"


def _partial(workload: Workload) -> str:
    usual = workload.spec.default.sizes
    sizes = {name: size for name, size in workload.sizes.items() if name == workload.spec.x or size != usual[name]}
    return f"Shape({', '.join(f'{name}={size}' for name, size in sizes.items())})"


def _dispatcher_table(info: RunInfo, sweep: Sweep) -> str:
    groups: dict[str, list[Workload]] = {}
    for workload in sorted({point.workload for point in sweep.finals}):
        groups.setdefault(workload.series, []).append(workload)
    return "\n\n".join(_series_table(info, sweep, series, workloads) for series, workloads in groups.items())


def _series_table(info: RunInfo, sweep: Sweep, series: str, workloads: list[Workload]) -> str:
    name = label_slug(series)
    lines = [f"[{info.gpu}.{name}]" if name else f"[{info.gpu}]", f"source = {json.dumps(info.run_id)}"]
    for workload in workloads:
        best, *others = sweep.final(workload)
        lines.append(f"{workload.x_slug} = {_row(best)}{_remark(others)}")
    return "\n".join(lines)


def _row(best: Point) -> str:
    cells = {"kernel": best.kernel, **best.params}
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in cells.items()) + " }"


def _remark(others: list[Point]) -> str:
    words = {Place.TIED: "ties", Place.UNCLEAR: "may tie"}
    ties = [f"{other.kernel} {words[other.place]}" for other in others if other.place in words]
    return f"  # {', '.join(ties)}" if ties else ""
