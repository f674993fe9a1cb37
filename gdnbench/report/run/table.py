"""Prints a stored run: a table per workload with what qualifies it; or JSON or CSV."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from gdnbench.analyse.suite import SuiteResult, suite_of_run
from gdnbench.errors import ExitCode, UnknownNameError
from gdnbench.measure.preflight import repeat_words, rerun_words
from gdnbench.model.case import explain_short_lists, tell_serialized
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Suite
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.origin import place_asked
from gdnbench.render.codec import VERDICT_STYLES
from gdnbench.render.console import FittedTable, data_console, fits, plain_table, print_csv, print_json, print_next
from gdnbench.render.units import (
    MICROSECONDS,
    MILLISECONDS,
    TimeUnit,
    flops_bind,
    number,
    plus_minus,
    tflops_text,
    time_unit,
    traffic,
)
from gdnbench.report.run.clocks import LEGEND, Clocks, flat_rows, print_clocks, run_document, suite_rows
from gdnbench.report.run.text import (
    baseline_name,
    control_lines,
    failure_lines,
    headline,
    inputs_lines,
    legend,
    name_cell,
    next_words,
    notes_of,
    print_suite,
    speedup_text,
)
from gdnbench.store.builds import BuildRow, read_builds
from gdnbench.store.info import RunInfo, workload_titles
from gdnbench.store.measurements import read_clocks, read_run

Beneath = Mapping[str, Sequence[tuple[str, Measurement, Measurement | None]]]
"""Named rows, each with its kernel time, by the id of the case that they stand beneath."""

_BOUND = "of bound"
STREAM_WIDTH = 15  # characters of a further column of times
WIDE_ENOUGH_FOR_NOTES = 120  # characters; in a narrower terminal notes follow the table


def print_run(
    folder: Path, *, json: bool, csv: bool, suite: Suite | None = None, over: Sequence[str] = (), profile: str = ""
) -> None:
    """Reads a run's folder and prints it.

    `suite` sums the run up, by default the one that it measured; if given, CSV has its rows. `over` has the kernels to
    compare with, by default the baseline. `profile` is the one shown, empty for all, summed up at the worst. Raises
    RunFormatError if the folder holds no run that this gdnbench can read, UsageError if the run lacks workloads of the
    suite, UnknownNameError for a kernel or profile that it lacks.
    """
    info, measurements = read_run(folder)
    builds, clocks = read_builds(folder), read_clocks(folder)
    measurements = _of_profile(measurements, profile)
    clocks = {clock: _of_profile(rows, profile) for clock, rows in clocks.items()}
    result = suite_of_run(folder, info, measurements, suite, over)
    if json:
        print_json(run_document(info, measurements, clocks, builds, result))
    elif csv:
        print_csv(suite_rows(result) if result and suite else flat_rows(info, measurements, clocks))
    else:
        _print_tables(folder, info, measurements, clocks, builds, result)


def _of_profile(rows: Sequence[Measurement], profile: str) -> list[Measurement]:
    """Returns the rows of a profile, all for an empty one; raises UnknownNameError if no row has it."""
    there = dict.fromkeys(row.case.workload.inputs for row in rows)
    if profile and there and profile not in there:
        known = ", ".join(filter(None, there))
        raise UnknownNameError(f"the run has no times of {profile} inputs", f"it has {known}" if known else "")
    return [row for row in rows if profile in {"", row.case.workload.inputs}]


def _print_tables(
    folder: Path,
    info: RunInfo,
    measurements: Sequence[Measurement],
    clocks: Clocks,
    builds: Sequence[BuildRow],
    result: SuiteResult | None,
) -> None:
    console = data_console()
    console.print(headline(info))
    for warning in info.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    flops, by_kernel = flops_bind(measurements), has_times(clocks)
    titles = workload_titles(info)
    not_reached: list[str] = []
    reasons: set[str] = set()
    for workload in dict.fromkeys(row.case.workload for row in measurements):
        here, title = rows_at(workload, measurements), titles.get(workload, str(workload))
        if any(row.status is Status.NOT_RUN for row in here) and not any(row.timing for row in here):
            not_reached.append(title)
            continue
        clocks_here = {clock: rows_at(workload, rows) for clock, rows in clocks.items()}
        kernel_times = clocks_here.get("cupti", ()) if by_kernel else None
        print_workload(console, info, here, title, kernel_times, flops=flops, told=reasons)
        print_clocks(console, info, here, clocks_here)
    console.print()
    if not_reached:
        console.print(_not_reached_line(not_reached))
        console.print()
    told = legend(info, flops=flops, by_kernel=by_kernel)
    shortened = explain_short_lists(row.case.workload for row in measurements)
    below = (*(LEGEND if clocks else ()), *([shortened] if shortened else []))
    console.print(Text("\n").join([told, *map(Text, below)]), style="dim")
    console.print(Text(f"stored in {place_asked(folder)}", style="dim"), soft_wrap=True)
    if builds and not info.on_gpu:
        console.print(build_table(builds, reasons))
    if result:
        print_suite(console, result, info.op)
    print_next(console, _next(info, measurements, folder))


def _not_reached_line(titles: Sequence[str]) -> Text:
    """Returns one line for the workloads at which nothing was measured when a run was stopped."""
    told = titles[0] if len(titles) == 1 else f"{len(titles)} workloads, {titles[0]} to {titles[-1]}"
    return Text.assemble((Status.NOT_RUN.value, "red"), f"  {told}: the run was stopped before their turn")


def has_times(clocks: Clocks) -> bool:
    """Whether there are kernel times (CUPTI) among the times of further clocks."""
    return any(row.timing for row in clocks.get("cupti", ()))


def rows_at(workload: Workload, rows: Sequence[Measurement]) -> list[Measurement]:
    """Returns the rows of one workload."""
    return [row for row in rows if row.case.workload == workload]


def _next(info: RunInfo, measurements: Sequence[Measurement], folder: Path) -> list[str]:
    """Returns, after wrong numbers, the command that shows them again; else the run's next command."""
    wrong = [row for row in measurements if row.status.exit_code is ExitCode.WRONG_NUMBERS]
    seed = info.settings.get("seed")
    captured = {each["profile"]: each["path"] for each in info.inputs}
    if wrong and wrong[0].status.shows_when_timed:
        return rerun_words(wrong[0].case, info.gpu, captured)
    if wrong and seed is not None:
        return repeat_words(wrong[0].case, seed, captured)
    return next_words(info, folder, "--csv")


def print_workload(
    console: Console,
    info: RunInfo,
    rows: list[Measurement],
    title: str,
    kernel_times: Sequence[Measurement] | None,
    *,
    flops: bool,
    beneath: Beneath = MappingProxyType({}),
    told: set[str] | None = None,
) -> None:
    """Prints the rows of one workload, fastest first, and what qualifies them.

    `kernel_times` has the workload's rows by CUPTI, None where the run has no such times: they come first; rates and
    shares of the bound are theirs. `flops` tells whether FLOPs bound some workload of the run; `beneath` has rows to
    print beneath a case's. `told` has what was already printed in full, reasons for failures and, by sizes, dependence
    on the inputs; it is updated.
    """
    told = set() if told is None else told
    shown = [row for row in rows if row.timing and row.role is not Role.CONTROL]
    by_id = None if kernel_times is None else {row.case.id: row for row in kernel_times if row.timing}
    shown.sort(key=lambda row: (_time_us(by_id.get(row.case.id)) if by_id else 0.0, _time_us(row)))
    console.print()
    bound = f", bound by {'FLOPs' if flops_bind(rows) else 'copying'}" if flops and shown else ""
    console.print(Text(f"{title}  ({traffic(max(row.nbytes for row in rows))}{bound})", style="bold"))
    if shown:
        beside = console.width >= WIDE_ENOUGH_FOR_NOTES + (STREAM_WIDTH if by_id else 0)
        table = _table(info, shown, by_id, beside, beneath, flops=flops)
        # If the table has a column of notes, that column is folded.
        if not beside and not fits(console, table):
            table = _table(info, shown, by_id, beside, beneath, flops=flops, broken=True)
        streams = [f"stream {unit.name}" for unit in (MICROSECONDS, MILLISECONDS)]
        droppable = (
            "MHz",
            *streams,
            "GB/s",
            "TFLOP/s",
            _BOUND,
            _versus_heading(info, by_kernel=kernel_times is not None),
        )
        console.print(table if beside else FittedTable(table, droppable))
        if not beside:
            _print_notes(console, shown)
    failed = [row for row in rows if row.status is not Status.OK and not _fails_with_baseline(row, rows)]
    inputs = _untold(inputs_lines(rows), rows[0].case.workload, told)
    for line in (*control_lines(rows), *inputs, *failure_lines(failed, told=told)):
        console.print(line)


def _time_us(row: Measurement | None) -> float:
    return row.timing.time_us if row and row.timing else math.inf


def _untold(lines: Sequence[Text], workload: Workload, told: set[str]) -> list[Text]:
    """Returns lines on a workload's sizes that no table of another profile has printed."""
    marked = {f"{workload.at('').key}: {line.plain}": line for line in lines}
    found = [line for mark, line in marked.items() if mark not in told]
    told.update(marked)
    return found


def _fails_with_baseline(row: Measurement, rows: Sequence[Measurement]) -> bool:
    return row.role is Role.CONTROL and any(
        other.role is Role.BASELINE and other.status is row.status for other in rows
    )


def _print_notes(console: Console, rows: Sequence[Measurement]) -> None:
    for row in rows:
        if notes := notes_of(row):
            console.print(Text(f"  {row.case.label}: {'; '.join(notes)}", style="dim"))


def _table(
    info: RunInfo,
    rows: Sequence[Measurement],
    kernel_times: Mapping[str, Measurement] | None,
    notes: bool,
    beneath: Beneath,
    *,
    flops: bool,
    broken: bool = False,
) -> Table:
    """Makes the table of a workload; `flops` adds their rate, `broken` puts a label's params on a line of their own."""
    table, unit = plain_table(), time_unit(map(_time_us, rows))
    table.add_column("kernel", overflow="fold")
    if kernel_times is None:
        headings = [f"{'' if info.on_gpu else 'CPU '}time {unit.name}"]
    else:
        kernel_unit = time_unit(map(_time_us, kernel_times.values()))
        headings = [f"kernel {kernel_unit.name}", f"stream {unit.name}"]
    if info.on_gpu:
        headings += ["GB/s", *(("TFLOP/s",) if flops else ()), _BOUND]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(_versus_heading(info, by_kernel=kernel_times is not None), justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if info.on_gpu:
        table.add_column("MHz", justify="right", no_wrap=True)
    if notes:
        table.add_column("notes")

    def cells(row: Measurement, kernel_time: Measurement | None, *, notes: bool, broken: bool) -> list[Text]:
        times = [_time(row, unit)] if kernel_times is None else [_time(kernel_time, kernel_unit), _time(row, unit)]
        rates = _rates(row if kernel_times is None else kernel_time, flops=flops) if info.on_gpu else []
        rest = _verdict_cells(row, on_gpu=info.on_gpu, notes=notes)
        return [name_cell(row, broken=broken), *times, *rates, *rest]

    for row in rows:
        table.add_row(*cells(row, (kernel_times or {}).get(row.case.id), notes=notes, broken=broken))
        for name, other, kernel_time in beneath.get(row.case.id, ()):
            own = cells(other, kernel_time, notes=False, broken=False)
            table.add_row(Text(f"  {name}"), *own[1:], style="dim")
    return table


def _time(row: Measurement | None, unit: TimeUnit) -> Text:
    timing = row.timing if row else None
    return Text(unit.text(timing.time_us) + plus_minus(timing.relative_half_width) if timing else "")


def _rates(row: Measurement | None, *, flops: bool) -> list[Text]:
    if row is None or row.timing is None:
        return [Text("")] * (3 if flops else 2)
    rates = [number(row.timing.bandwidth_gbs), *([tflops_text(row.timing.tflops)] if flops else [])]
    return [*map(Text, rates), Text(number(row.timing.sol, ".1%") if row.role.does_the_work else "")]


def _verdict_cells(row: Measurement, *, on_gpu: bool, notes: bool) -> list[Text]:
    cells = [_versus(row), _verdict(row)]
    if on_gpu:
        cells.append(Text(number(row.timing.sm_mhz if row.timing else math.nan)))
    return [*cells, Text("; ".join(notes_of(row)))] if notes else cells


def _versus_heading(info: RunInfo, *, by_kernel: bool) -> str:
    return f"{'stream ' if by_kernel else ''}vs {baseline_name(info)}"


def _versus(row: Measurement) -> Text:
    if row.role is Role.BASELINE:
        return Text("1", style="dim")
    return Text(speedup_text(row.versus) if row.versus else "")


def _verdict(row: Measurement) -> Text:
    if row.role is Role.BASELINE:
        return Text("baseline", style="dim")
    if not row.role.does_the_work:
        return Text(row.role.value, style="dim")
    verdict = row.versus.verdict if row.versus else ""
    return Text(verdict.upper(), style=VERDICT_STYLES.get(verdict, ""))


def build_table(builds: Sequence[BuildRow], told: Collection[str] = ()) -> Group:
    """Makes a row per variant and series, with its build per architecture; `told` has reasons printed in full."""
    grouped: dict[tuple[str, str], dict[str, BuildRow]] = {}
    for build in builds:
        grouped.setdefault((build.title, build.series), {})[build.arch] = build
    archs = list(dict.fromkeys(build.arch for build in builds))
    several = len({series for _, series in grouped}) > 1
    table = _empty_build_table(archs)
    for (label, series), by_arch in grouped.items():
        cells = [cell for arch in archs for cell in _build_cells(by_arch.get(arch))]
        verdict = next(iter(by_arch.values())).interpreter.partition(":")[0]
        style = "red" if verdict not in {"", "passed"} else ""
        table.add_row(Text(f"{label} {series}" if several else label), *cells, Text(verdict, style=style))
    title = Text("\nGPU kernels: compiled here, not timed", style="bold")
    legend = "regs and spill (bytes) per thread, smem (bytes) per block, load: widest, in bits"
    return Group(
        title,
        FittedTable(table, ("load", "smem", "spill")),
        Text(legend, style="dim"),
        *_serialized_builds(builds),
        *_build_failures(builds, told),
    )


def _empty_build_table(archs: Sequence[str]) -> Table:
    table = plain_table(gap=1)
    table.add_column("\nkernel", overflow="fold")
    for arch in archs:
        table.add_column(f"{arch}\nregs", justify="right", no_wrap=True)
        for heading in ("\nspill", "\nsmem", "\nload"):
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("in an\ninterpreter", no_wrap=True)
    return table


def _build_cells(build: BuildRow | None) -> list[Text]:
    if build is None:
        return [Text("")] * 4
    if build.status != "ok":
        return [Text("failed", style="red"), *[Text("")] * 3]
    counts = (build.registers, build.spill_bytes, build.shared_bytes, build.load_bits)
    return [Text(str(count)) for count in counts]


def _serialized_builds(builds: Sequence[BuildRow]) -> list[Text]:
    return [
        Text(f"  {build.title} {build.arch}: {tell_serialized(build.serialized_because)}", style="yellow")
        for build in builds
        if build.serialized_because
    ]


def _build_failures(builds: Sequence[BuildRow], told: Collection[str]) -> list[Text]:
    """Returns each reason once, with its architectures; the compiler's excerpt unless already printed."""
    archs: dict[tuple[str, str], dict[str, None]] = {}
    for build in builds:
        if build.status != "ok":
            archs.setdefault((build.title, build.reason), {})[build.arch] = None
    shown = {reason: reason.partition("\n")[0] if reason in told else reason for _, reason in archs}
    return [Text(f"  {title} {', '.join(on)}: {shown[reason]}", style="red") for (title, reason), on in archs.items()]
