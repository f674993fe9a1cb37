"""The texts of a run: headline, legend, a row's name, speedup, notes and failure; and its kernels over a suite."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gdnbench.functions.reference import names_functions
from gdnbench.model.measurement import INPUTS_MARGIN, LONG_TAIL, InputsEffect, Measurement
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.origin import out_option, path_at_origin
from gdnbench.render.table import Block, Column, Note, Table
from gdnbench.render.units import (
    NAME_STYLE,
    factor,
    plus_minus,
    relative_half_width,
    settling_notes,
    time_unit,
    verdict_cell,
)
from gdnbench.render.view import current_view
from gdnbench.store.calibration import in_words
from gdnbench.store.files import PARTIAL
from gdnbench.store.info import RunInfo
from gdnbench.verbs.measured_columns import speedup_text
from gdnbench.wording import first_of, plural

if TYPE_CHECKING:
    from gdnbench.analyse.suite import FastestKernel, SuiteResult, SuiteRow


def headline(info: RunInfo, workloads: Iterable[Workload] = ()) -> Text:
    """Returns what was measured, where, on what inputs, and with how many samples."""
    gpu = info.machine.get("gpu") or {}
    device = gpu.get("name") or "the CPU (no GPU here, or none wanted)"
    settings = info.settings
    timer = "NVBench, cold L2" if info.on_gpu else "warm calls"
    processes = process_count(info)
    most, shared = ("≤", f", {processes} processes") if processes > 1 else ("up to ", "")
    fewer = most if settings.get("until_clear") else ""
    rounds = f"{fewer}{settings['rounds']} rounds of {most}{settings['samples']} samples{shared}"
    what = f"{info.op} on {device}{with_inputs(workloads)}"
    return head_line(what, f"{timer}, {rounds}", complete=info.complete)


def with_inputs(workloads: Iterable[Workload]) -> str:
    """Returns ` with forgetful inputs`: the profile of the workloads whose labels do not name it."""
    found = sorted({each.inputs for each in workloads if not each.labelled_profile} - {""})
    return f" with {' and '.join(found)} inputs" if found else ""


def head_line(what: str, how: str, *, complete: bool) -> Text:
    """Returns the first line of a run: what was measured, in bold, how, and whether it is a part."""
    partial = ("  (partial)", "bold yellow")
    return Text.assemble((what, "bold"), f": {how}", *(() if complete else [partial]))


def process_count(info: RunInfo) -> int:
    """Returns the number of processes that shared its rounds; older runs, which had one, do not store it."""
    return int(info.settings.get("processes", 1))


def baseline_name(info: RunInfo) -> str:
    """Returns the baseline's label without the op: `fla`."""
    return info.baseline.removeprefix(f"{info.op}-")


def inputs_lines(rows: Sequence[Measurement]) -> list[Text]:
    """Returns how the times of a workload's kernels differ between profiles of inputs; empty if not tried."""
    tried = [(row.case.label, row.inputs) for row in rows if row.inputs and row.role is not Role.CONTROL]
    if not tried:
        return []
    between = " as in ".join(sorted({tried[0][1].worst, tried[0][1].best}))
    dependent = [f"{label} takes {inputs_text(effect)}" for label, effect in tried if effect.depends]
    unclear = [
        f"{label} ({factor(effect.ratio)}{plus_minus(relative_half_width(effect.ratio, effect.low, effect.high))})"
        for label, effect in tried
        if not effect.depends and not effect.is_alike
    ]
    alike = len(tried) - len(dependent) - len(unclear)
    parts = [*dependent, *([f"not clear: {', '.join(unclear)}"] if unclear else [])]
    if alike:
        parts.append(f"{plural(alike, 'kernel')} as long in {between}, within {INPUTS_MARGIN:.0%}")
    return [Text(f"inputs: {'; '.join(parts)}", style="yellow" if dependent else "")]


def inputs_text(effect: InputsEffect) -> str:
    """Returns `4.41x ±2.1% as long in never as in forgetful`."""
    half_width = plus_minus(relative_half_width(effect.ratio, effect.low, effect.high))
    return f"{factor(effect.ratio)}{half_width} as long in {effect.worst} as in {effect.best}"


MOST_FASTEST = 2  # workloads with a line each; of more, a line counts them by kernel
MOST_TIED = 4  # kernels that are named


def fastest_lines(found: Mapping[Workload, FastestKernel], info: RunInfo) -> list[str]:
    """Returns the fastest kernel of each workload, its ratio to the baseline and what ties; of many, the counts."""
    if len(found) <= MOST_FASTEST:
        return [_fastest_line(workload, best, info) for workload, best in found.items()]
    counts = Counter(label for best in found.values() for label in (best.row.case.label, *best.tied))
    often = first_of([f"{label} at {count}" for label, count in counts.most_common()], MOST_TIED)
    lines = [f"fastest, or tied: {often} of {len(found)} workloads"]
    ratios = {
        workload: best.row.versus for workload, best in found.items() if best.row.versus and best.row.versus.speedup
    }
    if ratios:
        ends = [pick(ratios, key=lambda each: ratios[each].speedup) for pick in (min, max)]
        ranges = " to ".join(f"{speedup_text(ratios[each])} at {each}" for each in ends)
        lines.append(f"the fastest vs {baseline_name(info)}: {ranges}")
    return lines


def _fastest_line(workload: Workload, best: FastestKernel, info: RunInfo) -> str:
    versus, ratio = best.row.versus, ""
    if best.row.role is Role.BASELINE:
        ratio = ", the baseline"
    elif versus:
        ratio = f", {speedup_text(versus)} vs {baseline_name(info)}, {versus.verdict.upper()}"
    alike = (("ties", best.tied), ("may tie", best.unclear))
    ties = [f"{how}: {first_of(labels, MOST_TIED)}" for how, labels in alike if labels]
    return "; ".join([f"fastest at {workload}: {best.row.case.label}{ratio}", *ties])


def warning_notes(warnings: Sequence[str]) -> list[Note]:
    """Returns the warnings of a run; what is said of several workloads or kernels stands once, with their names."""
    found: dict[str, list[str]] = {}
    for warning in warnings:
        where, _, what = warning.partition(": ")
        found.setdefault(what or where, []).append(where if what else "")
    return [
        Note(
            f"{what}: {first_of(where, MOST_TIED)}" if len(where) > 1 else f"{where[0]}: {what}".removeprefix(": "),
            "warning",
        )
        for what, where in found.items()
    ]


def row_notes(
    rows: Sequence[Measurement], of: Callable[[Measurement], Sequence[str]] | None = None, by: str = ""
) -> list[Note]:
    """Returns a line a row of what qualifies it, and one for each thing that is said of several; `by` names a clock."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for note in (of or notes_of)(row):
            found.setdefault(_A_TAIL if note.endswith(LONG_TAIL) else note, []).append(row.case.label)
    own: dict[str, list[str]] = {}
    for note, labels in found.items():
        if len(labels) == 1:
            own.setdefault(labels[0], []).append(note)
    lines = [f"  {label}{by}: {'; '.join(notes)}" for label, notes in own.items()]
    lines += [f"  {note}{by}: {', '.join(labels)}" for note, labels in found.items() if len(labels) > 1]
    return [Note(line, "legend") for line in lines]


_A_TAIL = "a long tail, mean over 1% above"


_ROUNDS = "rounds"


def legend(info: RunInfo, *, flops: bool, over: str = "", by_kernel: bool = False) -> str:
    """Returns the meanings of the columns of a run's table.

    `flops` tells whether FLOPs bound some workload, `by_kernel` whether the run has kernel times. Intervals are over
    `over`, by default rounds, and processes if several.
    """
    settings = info.settings
    over = over or ("rounds and processes" if process_count(info) > 1 else _ROUNDS)
    cards = "" if "cards" in over or not info.on_gpu else "; cards not sampled are not in it"
    interval = f"±: {settings['confidence']:.0%} interval over {over}"
    ratio = "vs: baseline time / the kernel's, paired by round;"
    lines = [f"{interval}. {ratio}"] if over == _ROUNDS else [f"{interval}{cards}.", ratio]
    lines.append(f"FASTER or SLOWER beyond {settings['margin']:.2%}, with Holm's correction for all comparisons.")
    if settings.get("until_clear"):
        lines.append("Kernels clear of the baseline and the fastest after one process have its rounds only.")
    if by_kernel:
        lines.append("kernel: kernel time (CUPTI). stream: event to event (NVBench), launch included;")
        lines.append("vs and verdict are of stream times.")
    if info.on_gpu:
        what = "kernel time" if by_kernel else "time"
        bound = "the bound" if flops else "the fastest copying floor"
        launch = ", by kernel times" if by_kernel else ", launch on both sides"
        lines.append(f"of bound: {bound}'s time / the kernel's{launch}.")
        if flops:
            lines.append("The bound: the fastest copying floor, or the op's FLOPs at the GPU's peak, without launch,")
            lines.append(f"whichever takes longer. GB/s, TFLOP/s: least traffic and FLOPs of the op / {what}.")
        else:
            lines.append(f"GB/s: least traffic of the op / {what}.")
    if info.calibration:
        lines.append(f"Calibrated {in_words(info.calibration)}.")
    return "\n".join(lines)


def name_cell(row: Measurement) -> Text:
    """Returns a row's label."""
    return Text(row.case.label, style="bold" if row.role is Role.BASELINE else "" if row.role.does_the_work else "dim")


def notes_of(row: Measurement) -> list[str]:
    """Returns what qualifies a row: warnings, launches, spills, and how many rounds an UNCLEAR verdict needs."""
    notes = [row.case.variant.in_full] if row.case.variant.is_picked else []
    notes += row.warnings
    if row.launches > 1:
        notes.append(f"{row.launches} launches")
    if row.spill_bytes > 0:
        notes.append(f"spills {row.spill_bytes} B a thread")
    return notes + settling_notes(row.versus)


def control_lines(rows: Sequence[Measurement], *, workloads: bool = False) -> list[Text]:
    """Returns the baseline's ratio to itself, the noise of every comparison, per row; `workloads` adds where."""
    return [
        Text(
            f"A/A{f' {row.case.workload}' if workloads else ''}: {row.case.variant.label} against itself "
            f"{speedup_text(row.versus)}, {row.versus.verdict.upper()}"
        )
        for row in rows
        if row.role is Role.CONTROL and row.versus
    ]


def failure_lines(rows: Sequence[Measurement], what: str = "", printed: set[str] | None = None) -> list[Text]:
    """Returns what was not measured and why, a reason a line; `printed` has those printed in full, and is updated."""
    printed = set() if printed is None else printed
    grouped: dict[tuple[Status, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.status, row.reason), []).append(row.case.label)
    lines: list[Text] = []
    for (status, reason), labels in grouped.items():
        first, *more = reason.strip().splitlines() or [""]
        style = "red" if status.is_failure else "yellow"
        lines.append(Text.assemble((what + status.value, style), f"  {', '.join(labels)}: {first}"))
        if more and reason not in printed:
            lines.append(Text("\n".join(f"    {line}" for line in more), style="dim"))
        printed.add(reason)
    return lines


MOST_NAMED = 8  # workloads of a suite that are named below its table


def suite_blocks(result: SuiteResult, op: str) -> Iterator[Block]:
    """Yields a row per kernel, fastest first; headings leave out the op's name, as in a run's table."""
    unit = time_unit(row.time_us for row in result.rows)
    reference = result.over[0].removeprefix(f"{op}-") if len(result.over) == 1 else "best"
    columns: list[Column[SuiteRow]] = [
        Column("", lambda row: row.label, "kernel", style=NAME_STYLE, fold=True),
        Column("", lambda row: unit.text(row.time_us), f"mean {unit.name}", right=True),
        Column("", lambda row: _cells(row)[0], f"vs {reference}", right=True, fold=True),
        Column("", lambda row: _cells(row)[1], "verdict"),
    ]
    if result.profiles:
        columns.append(Column("", lambda row: row.profile if row.comparison else "", "inputs"))
    yield ""
    title = f"suite {result.suite.name}: {_extent(result)}{_profiles(result)}"
    notes = [*(Note(line, "legend") for line in _notes(result)), _meaning(result)]
    yield Table(columns, result.rows, title=title, notes=notes)


def _profiles(result: SuiteResult) -> str:
    """Returns the inputs: `, mixed-heads inputs`; for several, that each kernel is at its worst."""
    if len(result.profiles) < 2:
        return f", {result.profiles[0]} inputs" if result.profiles else ""
    return f", each kernel at its worst of {', '.join(result.profiles)} inputs"


def _extent(result: SuiteResult) -> str:
    workloads = plural(len(result.suite.weights), "workload")
    return f"{result.summed} of {workloads}" if result.left_out else workloads


def _notes(result: SuiteResult) -> list[str]:
    lines = []
    for row in result.rows:
        if row.worst:
            where = f"reads slower at {row.slower_at(result.margin)} of {plural(result.summed, 'workload')}"
            least = f"{factor(row.speedups[row.worst])} at {row.worst.titled}"
            lines.append(f"  {row.label}: {where}; worst {least}")
    dependent = [row for row in result.rows if row.inputs and row.inputs.depends]
    lines += [f"  {row.label}: {inputs_text(row.inputs)}, where most" for row in dependent if row.inputs]
    if result.left_out:
        left_out = first_of([workload.titled for workload in result.left_out], MOST_NAMED)
        lines.append(f"left out for want of times: {left_out}")
    if result.incomplete:
        found = ", ".join(f"{label} (at {count})" for label, count in result.incomplete.items())
        lines.append(f"not at every workload: {found}")
    return lines


def _meaning(result: SuiteResult) -> Note:
    best = f"; best: at each workload, the fastest of {', '.join(result.over)}" if len(result.over) > 1 else ""
    return Note(f"weighted geometric means, whose weights --json has; paired by round{best}", "meaning")


def _cells(row: SuiteRow) -> tuple[Text, Text]:
    """Returns ratio and verdict; if a kernel's time depends on the inputs, also the inputs of the verdict."""
    if not row.role.does_the_work:
        return Text(""), Text(row.role.value)
    if row.comparison is None:
        return Text("1"), Text("baseline")
    speedup, verdict = row.comparison.speedup, row.comparison.verdict
    ratio = factor(speedup.estimate) + plus_minus(speedup.relative_half_width)
    where = f" in {row.profile}" if row.inputs and row.inputs.depends else ""
    return Text(ratio), verdict_cell(verdict, f"{verdict.upper()}{where}")


def stored_note(folder: Path, width: int) -> Note:
    """Returns where a run is stored, and what explains its tables if there is room for it."""
    stored = f"stored in {path_at_origin(folder)}"
    hint = "" if current_view().legend else "; --legend explains the columns"
    return Note(stored + (hint if len(stored + hint) <= width else ""), "legend", whole=True)


def next_words(info: RunInfo, folder: Path, option: str) -> list[str]:
    """Returns the command that shows a run in another form, `--csv`, or finishes one that was stopped, here or there.

    A run of functions or of git revisions begins anew: the sources may be others by now.
    """
    from gdnbench.machine.gpus import list_gpus

    hidden = PARTIAL.fullmatch(folder.name)
    named = [hidden["run_id"] if hidden else folder.name, *out_option(folder.parent)]
    show, typed = ["gdnbench", "show", *named, option], shlex.split(info.command)
    begins_anew = typed[1:2] == ["compare"] or names_functions(typed)
    resume = typed if begins_anew else ["gdnbench", "run", "--resume", *named]
    if info.complete or not info.on_gpu or list_gpus():
        return show if info.complete else resume
    from gdnbench.remote.targets import first_target

    target = first_target()
    return [*resume, "--on", target] if target and not begins_anew else show
