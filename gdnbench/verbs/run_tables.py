"""What `run` and `show` print of a run: a table per workload with what qualifies it, its suite, its builds."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.text import Text

from gdnbench.analyse.suite import SuiteResult, fastest_of, suite_of_run
from gdnbench.catalog.request import repeat_words, rerun_words
from gdnbench.errors import ExitCode, UnknownNameError
from gdnbench.functions.reference import names_functions
from gdnbench.model.case import explain_short_lists
from gdnbench.model.gpu import format_serialized
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Suite
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.render.units import flops_bind, tflops_text, traffic
from gdnbench.store.files import is_stored
from gdnbench.store.info import RunInfo, workload_titles
from gdnbench.store.measurements import read_clocks, read_run
from gdnbench.store.samples import ROUNDS, read_rounds
from gdnbench.store.tables import BuildRow, read_builds
from gdnbench.verbs import measured_columns, run_notes
from gdnbench.verbs.run_clocks import LEGEND, Clocks, clock_blocks, flat_rows, has_times, run_document, suite_rows


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
    yield run_notes.headline(info, (row.case.workload for row in measurements))
    yield from run_notes.warning_notes(info.warnings)
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
        yield from view.blocks(printed)
        yield from clock_blocks(info, rows, clocked)
    if builds and not info.on_gpu:
        yield from build_blocks(builds, printed)
    if result:
        yield from run_notes.suite_blocks(result, info.op)
    yield ""
    if not_reached:
        yield _not_reached_line(not_reached)
        yield ""
    shortened = explain_short_lists(row.case.workload for row in measurements)
    below = (*(LEGEND if clocks else ()), *([shortened] if shortened else []))
    yield Note("\n".join([run_notes.legend(info, flops=flops, by_kernel=by_kernel), *below]), "meaning")
    if any(row.timing for row in measurements):
        yield from (Note(line, "summary") for line in _fastest(folder, info, measurements))
    yield run_notes.stored_note(folder, width)


def _fastest(folder: Path, info: RunInfo, measurements: Sequence[Measurement]) -> list[str]:
    rounds = read_rounds(folder) if is_stored(folder / ROUNDS) else {}
    found = {
        workload: fastest_of(info, rows_at(workload, measurements), rounds)
        for workload in dict.fromkeys(row.case.workload for row in measurements)
    }
    return run_notes.fastest_lines({workload: best for workload, best in found.items() if best}, info)


def _not_reached_line(titles: Sequence[str]) -> Text:
    """Returns one line for the workloads at which nothing was measured when a run was stopped."""
    where = titles[0] if len(titles) == 1 else f"{len(titles)} workloads, {titles[0]} to {titles[-1]}"
    return Text.assemble((Status.NOT_RUN.value, "red"), f"  {where}: the run was stopped before their turn")


def rows_at(workload: Workload, rows: Sequence[Measurement]) -> list[Measurement]:
    """Returns the rows of one workload."""
    return [row for row in rows if row.case.workload == workload]


def _next(info: RunInfo, measurements: Sequence[Measurement], folder: Path) -> list[str]:
    """Returns, after wrong numbers, the command that shows them again; else the run's next command."""
    wrong = [
        row
        for row in measurements
        if row.status.exit_code is ExitCode.WRONG_NUMBERS and not row.case.variant.is_of_revision
    ]
    seed = info.settings.get("seed")
    if wrong and names_functions([info.command]):
        return shlex.split(info.command)
    captured = {each["profile"]: each["path"] for each in info.inputs}
    if wrong and wrong[0].status in {Status.WRONG_WHEN_TIMED, Status.IMPLAUSIBLE}:
        return rerun_words(wrong[0].case, info.gpu, captured)
    if wrong and seed is not None:
        return repeat_words(wrong[0].case, seed, captured)
    return run_notes.next_words(info, folder, "--csv")


@dataclass(frozen=True)
class TimedLine:
    """A row of a workload's table, and its kernel time, if any."""

    row: Measurement
    kernel_time: Measurement | None


@dataclass(frozen=True)
class WorkloadView:
    """What is printed of one workload: its rows, fastest first, and what qualifies them."""

    info: RunInfo
    rows: Sequence[Measurement]
    title: str
    kernel_times: Sequence[Measurement] | None  # by CUPTI; None without: rates and shares of the bound are theirs
    flops: bool  # whether FLOPs bound some workload of the run

    def blocks(self, printed: set[str]) -> Iterator[Block]:
        """Yields what a terminal shows; `printed` has what was printed in full before, and is updated."""
        lines = self.lines()
        yield ""
        bound = f", bound by {'FLOPs' if flops_bind(self.rows) else 'copying'}" if self.flops and lines else ""
        yield Note(f"{self.title}  ({traffic(max(row.nbytes for row in self.rows))}{bound})", "title")
        if lines:
            yield Table(tuple(self.columns(lines)), lines)
            yield from run_notes.row_notes([line.row for line in lines])
        failed = [row for row in self.rows if row.status is not Status.OK and not self._fails_with_baseline(row)]
        yield from run_notes.control_lines(self.rows)
        yield from _not_printed(run_notes.inputs_lines(self.rows), self.rows[0].case.workload, printed)
        yield from run_notes.failure_lines(failed, printed=printed)

    def lines(self) -> list[TimedLine]:
        """Returns the timed rows in the order of the table."""
        by_id = {row.case.id: row for row in self.kernel_times or () if row.timing}
        timed = [row for row in self.rows if row.timing and row.role is not Role.CONTROL]
        timed.sort(key=lambda row: (_time_us(by_id.get(row.case.id)) if by_id else 0.0, _time_us(row)))
        return [TimedLine(row, by_id.get(row.case.id)) for row in timed]

    def columns(self, lines: Sequence[TimedLine], *, full: bool = False) -> Iterator[Column[TimedLine]]:
        """Yields the columns; `full` adds builds and notes."""
        info, by_kernel = self.info, self.kernel_times is not None

        yield Column(
            "", lambda line: line.row.case.label, "kernel", lambda line: run_notes.name_cell(line.row), fold=True
        )
        has_kernel_times = any(line.kernel_time for line in lines)  # a run that was stopped lacks some workloads' alone
        if has_kernel_times:
            yield measured_columns.time_column("kernel", lines, lambda line: line.kernel_time)
        stream = "stream" if by_kernel else "time" if info.on_gpu else "CPU time"
        yield measured_columns.time_column(stream, lines, lambda line: line.row, drop=5 if has_kernel_times else 0)
        if info.on_gpu and has_kernel_times == by_kernel:
            yield from self._rates()
        versus = f"{'stream ' if by_kernel else ''}vs {run_notes.baseline_name(info)}"
        yield measured_columns.ratio_column(versus, lambda line: line.row, drop=1)
        yield measured_columns.verdict_column(lambda line: line.row)
        if full:
            yield measured_columns.count_column("regs", lambda line: line.row.registers)
            yield measured_columns.count_column("spill B", lambda line: line.row.spill_bytes)
            yield measured_columns.count_column("smem B", lambda line: line.row.shared_bytes)
        if info.on_gpu:
            yield measured_columns.timing_column("MHz", lambda line: line.row, "sm_mhz", drop=6)
        if full:
            yield Column("", lambda line: "; ".join(run_notes.notes_of(line.row)), "notes", fold=True)

    def _rates(self) -> Iterator[Column[TimedLine]]:
        def timed(line: TimedLine) -> Measurement | None:
            return line.row if self.kernel_times is None else line.kernel_time

        yield measured_columns.timing_column("GB/s", timed, "bandwidth_gbs", drop=4)
        if self.flops:
            yield measured_columns.timing_column("TFLOP/s", timed, "tflops", tflops_text, drop=3)
        yield measured_columns.bound_column("of bound", timed, drop=2)

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


def build_blocks(builds: Sequence[BuildRow], printed: Collection[str] = ()) -> Iterator[Block]:
    """Yields a row per variant, series and architecture; `printed` has reasons printed in full."""
    several = len({build.series for build in builds}) > 1
    yield ""
    columns = (
        Column[BuildRow]("", lambda row: f"{row.title} {row.series}" if several else row.title, "kernel", fold=True),
        Column[BuildRow]("", lambda row: row.arch, "for"),
        *map(
            _build_column, ("registers", "spill_bytes", "shared_bytes", "load_bits"), ("regs", "spill", "smem", "load")
        ),
        Column[BuildRow]("", lambda row: row.interpreter.partition(":")[0], "in an interpreter"),
    )
    yield Table(columns, builds, title="GPU kernels: compiled here, not timed")
    yield Note("regs and spill (bytes) per thread, smem (bytes) per block, load: widest, in bits", "meaning")
    for build in builds:
        if build.serialized_because:
            line = f"  {build.title} {build.arch}: {format_serialized(build.serialized_because)}"
            yield Text(line, style="yellow")
    yield from _build_failures(builds, printed)


def _build_column(name: str, heading: str) -> Column[BuildRow]:
    failed = "failed" if name == "registers" else ""
    return Column("", lambda row: getattr(row, name) if row.status == "ok" else failed, heading, right=True)


def _build_failures(builds: Sequence[BuildRow], printed: Collection[str]) -> list[Text]:
    """Returns each reason once, with its architectures; the compiler's excerpt unless already printed."""
    archs: dict[tuple[str, str], dict[str, None]] = {}
    for build in builds:
        if build.status != "ok":
            archs.setdefault((build.title, build.reason), {})[build.arch] = None
    shown = {reason: reason.partition("\n")[0] if reason in printed else reason for _, reason in archs}
    return [Text(f"  {title} {', '.join(on)}: {shown[reason]}", style="red") for (title, reason), on in archs.items()]
