"""`gdnbench sweep`: which params are best? And how a stored sweep is printed: plateaus, failures, a declaration."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.measurement import Measurement, OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload, label_slug
from gdnbench.origin import RESULTS
from gdnbench.render.console import print_text
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, TextTable, plain_rows
from gdnbench.render.units import params_text, percent, plus_minus, time_unit
from gdnbench.store.info import RunInfo, info_document
from gdnbench.store.measurements import measurement_row, read_run
from gdnbench.store.tables import read_builds, read_sweep
from gdnbench.verbs import options
from gdnbench.verbs.measured_columns import PLACE_WORDS, count_column
from gdnbench.verbs.run_notes import control_lines, head_line, next_words, stored_note, warning_notes
from gdnbench.verbs.run_tables import build_blocks
from gdnbench.wording import first_line


def sweep(
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME[=V,V…]", help="A param and the values to try; repeatable."),
    ] = None,
    op: options.OpOrDecodeOption = "",
    library: options.LibraryOption = False,
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    profile: options.ProfileOption = None,
    inputs: options.InputsOption = None,
    budget: options.BudgetOption = "60s",
    samples: Annotated[int, typer.Option(help="Samples per round.")] = 64,
    margin: options.MarginOption = 0.005,
    baseline: options.BaselineOption = "",
    seed: options.SeedOption = None,
    step_limit: options.StepLimitOption = 30.0,
    label: Annotated[str, typer.Option(help="Becomes part of the sweep's name.")] = "sweep",
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Print the best of each workload as a declaration.")
    ] = False,
    dry_run: options.DryRunOption = False,
    yes: options.YesOption = False,
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Race every combination of params and say which are best.

    A coarse pass over all points, then ever more rounds of those that may still be
    the best, until they separate, tie within the margin, or the budget ends.
    The answer is a plateau: the points that tie, and the simplest of them. A sweep
    that is stopped has kept its rounds: `gdnbench run --resume` goes on with them.
    """
    from gdnbench.analyse.exit_code import exit_code_of_sweep, refuse_nothing_measured
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.request import device_of
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.measure.plan import choose_sweep_settings, foresee, make_plan, make_sweep_request, refuse_impossible
    from gdnbench.measure.start import begin_session
    from gdnbench.verbs.progress import watch

    catalog = load_catalog(library=library)
    chosen = select_gpu(gpu, list_gpus())
    settings = choose_sweep_settings(
        device_of(chosen), budget=budget, samples=samples, seed=seed, margin=margin, step_limit_s=step_limit
    )
    names = options.terms(kernels, kernel)
    request = make_sweep_request(
        catalog,
        options.op_meant(catalog, op, [*names, baseline], quiet=quiet),
        names,
        param or [],
        axes=options.sizes(shape),
        settings=settings,
        gpu=chosen,
        baseline=baseline,
        label=label,
        profiles=options.joined(profile),
        inputs=inputs,
    )
    plan = make_plan(catalog, request, chosen)
    outlook = foresee(catalog, plan)
    if dry_run:
        options.print_outlook(outlook, sys.argv[1:], json=json, csv=csv)
        return
    refuse_impossible(catalog, plan)
    options.confirm_builds(outlook, yes=yes)
    with watch(quiet=quiet) as observer:
        finished = begin_session(catalog, plan, results, observer).run()
    print_sweep(finished.path, json=json, csv=csv, dispatch=emit_dispatch)
    rows = finished.analysis.measurements
    code = exit_code_of_sweep(rows, finished.info.swept, interrupted=finished.interrupted)
    refuse_nothing_measured(code, rows)
    raise typer.Exit(code)


MOST_ROWS = 12  # points in a table, unless more tie

_STYLES = {Place.BEST: "bold green", Place.TIED: "green", Place.UNCLEAR: "yellow", Place.SLOWER: ""}

PointRows = Mapping[tuple[str, Workload], Measurement]
"""The rows of a sweep by label and workload."""


def print_sweep(folder: Path, *, json: bool, csv: bool, dispatch: bool) -> None:
    """Reads a sweep's folder and prints it; `dispatch`: a declaration of each workload's best point instead."""
    (info, measurements), sweep = read_run(folder), read_sweep(folder)
    if sweep is None:
        raise UsageError(f"{info.run_id} is not a sweep", "`gdnbench sweep` makes one: see `gdnbench sweep -h`")
    check_points(folder, sweep, measurements)
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


def check_points(folder: Path, sweep: Sweep, measurements: Sequence[Measurement]) -> None:
    """Raises RunFormatError for a sweep with a point that was not measured."""
    rows = {(row.case.label, row.case.workload) for row in measurements}
    if not all((point.label, point.workload) in rows for point in sweep.points):
        raise RunFormatError(f"{folder}: sweep.json and measurements.csv differ", "the sweep is damaged; sweep anew")


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
    yield Note(sweep_legend(info), "meaning")
    yield from (one_for_all_text(sweep, one) for one in sweep.one_for_all)
    yield stored_note(folder, width)


def sweep_legend(info: RunInfo) -> str:
    """Returns the meanings of the columns of a sweep's tables."""
    confidence, margin = f"{info.settings['confidence']:.0%}", f"{info.settings['margin']:.2%}"
    return (
        f"slower by: time over the best point's, paired by round; ±: {confidence} interval for the whole race.\n"
        f"TIES: within {margin} of the best. A point that is SLOWER leaves the race, so it has fewer rounds."
    )


def _headline(info: RunInfo, sweep: Sweep, measurements: Sequence[Measurement]) -> Text:
    gpu = info.machine.get("gpu") or {}
    count = sum(row.case.is_point_of(sweep.axes) for row in measurements)
    device = gpu.get("name") or "the CPU (no GPU here, or none wanted)"
    return head_line(f"sweep on {device}", f"{count} points: {sweep.tried}", complete=info.complete)


def point_columns(sweep: Sweep, plateau: Plateau, points: Sequence[Point], rows: PointRows) -> list[Column[Point]]:
    """Returns the columns of some points of a plateau; the last three are of their builds."""
    measured = {id(point): rows[point.label, point.workload] for point in points}

    def count(heading: str, name: str) -> Column[Point]:
        return count_column(heading, lambda point: getattr(measured[id(point)], name))

    def param(name: str) -> Column[Point]:
        return Column("", lambda point: point.params[name], name, lambda point: str(point.params[name]), right=True)

    timings = [row.timing for row in measured.values()]
    unit = time_unit(timing.time_us for timing in timings if timing)

    def time_us(point: Point) -> float:
        timing = measured[id(point)].timing
        return timing.time_us if timing else math.nan

    return [
        *map(param, sweep.axes[plateau.kernel]),
        Column("", time_us, f"time {unit.name}", lambda point: unit.text(time_us(point), 3), right=True),
        Column("", lambda point: point.slower_by, "slower by", _slower, right=True),
        Column("", lambda point: point.place, "place", _place),
        Column("", lambda point: point.rounds, "rounds", right=True, drop=1),
        count("regs", "registers"),
        count("spill", "spill_bytes"),
        count("smem", "shared_bytes"),
    ]


def _table(sweep: Sweep, plateau: Plateau, rows: PointRows, width: int) -> Table[Point]:
    """Makes a row per point of a plateau, fastest first; what its build takes where all of that has room."""
    points = sweep.of(plateau)
    shown = points[: max(MOST_ROWS, len(plateau.tied))]
    columns = point_columns(sweep, plateau, shown, rows)
    notes = [Note(plateau_text(sweep, plateau, rows))]
    if len(points) > len(shown):
        more = f"… and {len(points) - len(shown)} more, up to {points[-1].slower_by:.0%} slower"
        notes.insert(0, Note(more, "legend"))
    table = Table(columns, shown, f"{plateau.kernel}  {plateau.workload}", notes)
    return table if TextTable(table).width <= width else replace(table, columns=columns[:-3])


def _place(point: Point) -> Text:
    return Text(PLACE_WORDS[point.place], style=_STYLES[point.place])


def _slower(point: Point) -> str:
    if point.place is Place.BEST:
        return ""
    return percent(point.slower_by) + plus_minus((point.slower_hi - point.slower_lo) / 2)


def plateau_text(sweep: Sweep, plateau: Plateau, rows: PointRows) -> Text:
    """Returns the answer of a plateau: its simplest point, what ties with it, and its ratio to the baseline."""
    names = list(sweep.axes[plateau.kernel])
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


def one_for_all_text(sweep: Sweep, one: OneForAll) -> Text:
    """Returns a kernel's one point for all workloads, and what it costs at the worst of them."""
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
