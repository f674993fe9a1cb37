"""What `run` and `show` print of a run: a table per workload with what qualifies it, its suite, its builds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.text import Text

from gdnbench.analyse.suite import SuiteResult, suite_of_run
from gdnbench.catalog.request import repeat_words, rerun_words
from gdnbench.errors import ExitCode, UnknownNameError
from gdnbench.model.case import explain_short_lists
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Suite
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.origin import place_asked
from gdnbench.render.codec import verdict_cell
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.render.text import TextTable
from gdnbench.render.units import TimeUnit, flops_bind, number, plus_minus, tflops_text, time_unit, traffic
from gdnbench.stats.interval import Verdict
from gdnbench.store.info import RunInfo, workload_titles
from gdnbench.store.measurements import read_clocks, read_run
from gdnbench.store.tables import BuildRow, read_builds
from gdnbench.verbs.build_tables import build_blocks
from gdnbench.verbs.run_clocks import LEGEND, Clocks, clock_blocks, flat_rows, has_times, run_document, suite_rows
from gdnbench.verbs.run_notes import (
    KERNEL_MEANING,
    STREAM_MEANING,
    baseline_name,
    bound_meaning,
    control_lines,
    failure_lines,
    headline,
    inputs_lines,
    legend,
    name_cell,
    next_words,
    notes_of,
    ratio_value,
    speedup_text,
    suite_blocks,
    time_spread,
)

Beneath = Mapping[str, Sequence[tuple[str, Measurement, Measurement | None]]]
"""Named rows, each with its kernel time, by the id of the case that they stand beneath."""

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
    answer = Answer(
        text=partial(_text, folder, info, measurements, clocks, builds, result),
        document=lambda: run_document(info, measurements, clocks, builds, result),
        records=lambda: suite_rows(result) if result and suite else flat_rows(info, measurements, clocks),
        next=_next(info, measurements, folder),
    )
    print_answer(answer, json=json, csv=csv)


def _of_profile(rows: Sequence[Measurement], profile: str) -> list[Measurement]:
    """Returns the rows of a profile, all for an empty one; raises UnknownNameError if no row has it."""
    profiles = dict.fromkeys(row.case.workload.inputs for row in rows)
    if profile and profiles and profile not in profiles:
        known = ", ".join(filter(None, profiles))
        raise UnknownNameError(f"the run has no times of {profile} inputs", f"it has {known}" if known else "")
    return [row for row in rows if profile in {"", row.case.workload.inputs}]


def _text(
    folder: Path,
    info: RunInfo,
    measurements: Sequence[Measurement],
    clocks: Clocks,
    builds: Sequence[BuildRow],
    result: SuiteResult | None,
    width: int,
) -> Iterator[Block]:
    yield headline(info)
    yield from (Note(warning, "warning") for warning in info.warnings)
    flops, by_kernel = flops_bind(measurements), has_times(clocks)
    titles = workload_titles(info)
    not_reached: list[str] = []
    printed: set[str] = set()
    for workload in dict.fromkeys(row.case.workload for row in measurements):
        rows, title = rows_at(workload, measurements), titles.get(workload, str(workload))
        if any(row.status is Status.NOT_RUN for row in rows) and not any(row.timing for row in rows):
            not_reached.append(title)
            continue
        clocked = {clock: rows_at(workload, each) for clock, each in clocks.items()}
        view = WorkloadView(info, rows, title, clocked.get("cupti", ()) if by_kernel else None, flops=flops)
        yield from view.blocks(width, printed)
        yield from clock_blocks(info, rows, clocked, width)
    yield ""
    if not_reached:
        yield _not_reached_line(not_reached)
        yield ""
    shortened = explain_short_lists(row.case.workload for row in measurements)
    below = (*(LEGEND if clocks else ()), *([shortened] if shortened else []))
    yield Note("\n".join([legend(info, flops=flops, by_kernel=by_kernel), *below]), "legend")
    yield Note(f"stored in {place_asked(folder)}", "legend", whole=True)
    if builds and not info.on_gpu:
        yield from build_blocks(builds, printed)
    if result:
        yield from suite_blocks(result, info.op)


def _not_reached_line(titles: Sequence[str]) -> Text:
    """Returns one line for the workloads at which nothing was measured when a run was stopped."""
    where = titles[0] if len(titles) == 1 else f"{len(titles)} workloads, {titles[0]} to {titles[-1]}"
    return Text.assemble((Status.NOT_RUN.value, "red"), f"  {where}: the run was stopped before their turn")


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


@dataclass(frozen=True)
class TimedLine:
    """A row of a workload's table: a case, or, with a name, what stands beneath one."""

    row: Measurement
    kernel_time: Measurement | None
    name: str = ""


@dataclass(frozen=True)
class WorkloadView:
    """What is printed of one workload: its rows, fastest first, and what qualifies them.

    Attributes:
        kernel_times: the rows by CUPTI, None where the run has no such times: they come first; rates and shares of the
            bound are theirs.
        flops: whether FLOPs bound some workload of the run.
        beneath: rows to print beneath a case's.
    """

    info: RunInfo
    rows: Sequence[Measurement]
    title: str
    kernel_times: Sequence[Measurement] | None
    flops: bool
    beneath: Beneath = field(default_factory=dict)

    def blocks(self, width: int, printed: set[str]) -> Iterator[Block]:
        """Yields what a terminal shows.

        `printed` has what was already printed in full, reasons for failures and, by sizes, dependence on the inputs; it
        is updated.
        """
        lines = self.lines()
        yield ""
        bound = f", bound by {'FLOPs' if flops_bind(self.rows) else 'copying'}" if self.flops and lines else ""
        yield Note(f"{self.title}  ({traffic(max(row.nbytes for row in self.rows))}{bound})", "title")
        if lines:
            yield from self._table(lines, width)
        failed = [row for row in self.rows if row.status is not Status.OK and not self._fails_with_baseline(row)]
        yield from control_lines(self.rows)
        yield from _not_printed(inputs_lines(self.rows), self.rows[0].case.workload, printed)
        yield from failure_lines(failed, printed=printed)

    def lines(self) -> list[TimedLine]:
        """Returns the timed rows in the order of the table, each followed by what stands beneath it."""
        by_id = {row.case.id: row for row in self.kernel_times or () if row.timing}
        timed = [row for row in self.rows if row.timing and row.role is not Role.CONTROL]
        timed.sort(key=lambda row: (_time_us(by_id.get(row.case.id)) if by_id else 0.0, _time_us(row)))
        lines: list[TimedLine] = []
        for row in timed:
            lines.append(TimedLine(row, by_id.get(row.case.id)))
            lines += [TimedLine(other, time, f"  {name}") for name, other, time in self.beneath.get(row.case.id, ())]
        return lines

    def _table(self, lines: Sequence[TimedLine], width: int) -> Iterator[Block]:
        timed = [line.row for line in lines if not line.name]
        has_kernel_times = any(line.kernel_time for line in lines)
        beside = width >= WIDE_ENOUGH_FOR_NOTES + (STREAM_WIDTH if has_kernel_times else 0)
        make = partial(self.columns, lines, notes=beside)
        table = Table(tuple(make()), lines, style=lambda line: "dim" if line.name else "")
        # If the table has a column of notes, that column is folded.
        if not beside and TextTable(table).width > width:
            table = Table(tuple(make(broken=True)), lines, style=table.style)
        yield table
        if not beside:
            noted = ((row, notes_of(row)) for row in timed)
            yield from (Note(f"  {row.case.label}: {'; '.join(notes)}", "legend") for row, notes in noted if notes)

    def columns(
        self, lines: Sequence[TimedLine], *, notes: bool, broken: bool = False, built: bool = False
    ) -> Iterator[Column[TimedLine]]:
        """Yields the columns; with one of `notes` all stay.

        `broken` puts a label's params on a line of their own; `built` adds what the compiler reports.
        """
        info, by_kernel = self.info, self.kernel_times is not None
        timed = [line for line in lines if not line.name]

        def column(
            heading: str,
            value: Callable[[TimedLine], object],
            show: Callable[[TimedLine], str | Text],
            meaning: str,
            drop: int,
        ) -> Column[TimedLine]:
            return Column("", value, heading, show, drop=0 if notes else drop, right=True, meaning=meaning)

        def time(
            name: str, of: Callable[[TimedLine], Measurement | None], meaning: str, drop: int
        ) -> Column[TimedLine]:
            unit = time_unit(_time_us(of(line)) for line in timed)
            show = partial(_time_text, of, unit)
            return column(f"{name} {unit.name}", lambda line: time_spread(of(line)), show, meaning, drop)

        def count(heading: str, field: str, meaning: str) -> Column[TimedLine]:
            return Column("", lambda line: _known(line, field), heading, right=True, meaning=meaning)

        yield Column("", _label, "kernel", lambda line: line.name or name_cell(line.row, broken=broken), fold=True)
        if by_kernel:
            yield time("kernel", lambda line: line.kernel_time, KERNEL_MEANING, 0)
        stream = "stream" if by_kernel else "time" if info.on_gpu else "CPU time"
        yield time(stream, lambda line: line.row, STREAM_MEANING, 5 if by_kernel else 0)
        if info.on_gpu:
            yield from self._rates(column)
        versus = f"{'stream ' if by_kernel else ''}vs {baseline_name(info)}"
        meaning = "baseline time / time; above 1 is faster"
        yield column(versus, lambda line: ratio_value(line.row), lambda line: _versus(line.row), meaning, 1)
        yield Column(
            "", lambda line: verdict_value(line.row), "verdict", lambda line: _verdict(line.row),
            meaning="against the baseline",
        )  # fmt: skip
        if built:
            yield count("regs", "registers", "registers a thread")
            yield count("spill B", "spill_bytes", "bytes a thread that do not fit registers")
            yield count("smem B", "shared_bytes", "static shared memory a block, bytes")
        if info.on_gpu:
            meaning = "median SM clock during the samples"
            yield column("MHz", _clock, lambda line: number(_clock(line)), meaning, 6)
        if notes:
            yield Column("", _notes_text, "notes", fold=True)

    def _rates(self, column: Callable[..., Column[TimedLine]]) -> Iterator[Column[TimedLine]]:
        per = "time" if self.kernel_times is None else "kernel time"

        def value(line: TimedLine, field: str) -> float:
            row = line.row if self.kernel_times is None else line.kernel_time
            if row is None or row.timing is None or (field == "sol" and not line.row.role.does_the_work):
                return math.nan
            return float(getattr(row.timing, field))

        def rate(heading: str, field: str, text: Callable[[float], str], meaning: str, drop: int) -> Column[TimedLine]:
            return column(heading, partial(value, field=field), lambda line: text(value(line, field)), meaning, drop)

        yield rate("GB/s", "bandwidth_gbs", number, f"the least traffic of the op / {per}", 4)
        if self.flops:
            yield rate("TFLOP/s", "tflops", tflops_text, f"the op's floating-point operations / {per}", 3)
        meaning = bound_meaning("bound" if self.flops else "copying floor", by_kernel=self.kernel_times is not None)
        yield rate("of bound", "sol", lambda share: number(share, ".1%"), meaning, 2)

    def _fails_with_baseline(self, row: Measurement) -> bool:
        return row.role is Role.CONTROL and any(
            other.role is Role.BASELINE and other.status is row.status for other in self.rows
        )


def _time_us(row: Measurement | None) -> float:
    return row.timing.time_us if row and row.timing else math.inf


def _not_printed(lines: Sequence[Text], workload: Workload, printed: set[str]) -> list[Text]:
    """Returns lines on a workload's sizes that no table of another profile has printed."""
    marked = {f"{workload.at('').key}: {line.plain}": line for line in lines}
    new = [line for mark, line in marked.items() if mark not in printed]
    printed.update(marked)
    return new


def _time_text(of: Callable[[TimedLine], Measurement | None], unit: TimeUnit, line: TimedLine) -> str:
    time = time_spread(of(line))
    return unit.text(time.estimate) + plus_minus(time.relative_half_width) if time else ""


def _versus(row: Measurement) -> Text:
    if row.role is Role.BASELINE:
        return Text("1", style="dim")
    return Text(speedup_text(row.versus) if row.versus else "")


def _verdict(row: Measurement) -> Text:
    value = verdict_value(row)
    return Text(value.value, style="dim") if isinstance(value, Role) else verdict_cell(value.value if value else "")


def verdict_value(row: Measurement) -> Role | Verdict | None:
    """Returns the verdict against the baseline, or the role of a row that has none."""
    if not row.role.does_the_work or row.role is Role.BASELINE:
        return row.role
    return Verdict(row.versus.verdict) if row.versus and row.versus.verdict else None


def _label(line: TimedLine) -> str:
    return line.name or line.row.case.label


def _clock(line: TimedLine) -> float:
    return line.row.timing.sm_mhz if line.row.timing else math.nan


def _known(line: TimedLine, field: str) -> int | None:
    count = getattr(line.row, field)
    return None if count < 0 else int(count)


def _notes_text(line: TimedLine) -> str:
    return "" if line.name else "; ".join(notes_of(line.row))
