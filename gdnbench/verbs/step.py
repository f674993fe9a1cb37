"""`gdnbench step`: what does an engine pay for one token, by every way of launching its layers?"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gdnbench.model.status import Status
from gdnbench.origin import RESULTS
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import factor, plus_minus, relative_half_width, time_text, verdict_cell
from gdnbench.store.info import RunInfo, info_document, read_info
from gdnbench.store.tables import LaunchWayRow, StepRow, read_launch_ways, read_steps, refuse_lost_rows
from gdnbench.verbs import options
from gdnbench.verbs.run_notes import head_line
from gdnbench.wording import plural


def step(
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    layers: Annotated[int, typer.Option(help="Layers of the chain, each with tensors of its own.")] = 36,
    between: Annotated[
        float, typer.Option(metavar="MIB", help="Read so much between two layers, standing for the weights.")
    ] = 0.0,
    path: Annotated[
        str, typer.Option(metavar="PATH,…", help="python, c-loop, graph, graph-pdl, persistent; all by default.")
    ] = "",
    l2: Annotated[
        str, typer.Option(metavar="STATE,…", help="What the L2 holds: resident, evicted, persisting; all by default.")
    ] = "",
    rounds: Annotated[int, typer.Option(help="Rounds in all, after burn-ins.")] = 21,
    samples: Annotated[int, typer.Option(help="Steps a round.")] = 16,
    processes: Annotated[int | None, typer.Option(help="Processes that share the rounds; 3 by default.")] = None,
    seed: options.SeedOption = None,
    label: options.LabelOption = "",
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Measure what a layer costs in a chain of them, by every way of launching it.

    An engine launches a kernel once a layer for each token. A chain of launches,
    one a layer, each on tensors of its own, is checked against the op's oracle and
    timed: from Python, from a C loop over the driver, as a CUDA graph, as a graph
    with programmatic dependent launch (of kernels whose source waits for it), and
    as one launch that goes over all layers (of kernels that have such a function).

    `--l2 resident` repeats the step, so that what fits stays; `evicted` overwrites
    the L2 before each step; `persisting` sets a part of it aside for the states, by
    access policy windows.
    """
    from gdnbench.analyse.exit_code import exit_code_of_statuses
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import MachineError, UsageError
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.step.measure import measure_plan
    from gdnbench.step.plan import L2, StepPlan, StepSettings, Way, make_cases, parse_names, requested_cases
    from gdnbench.verbs.progress import watch

    names = options.terms(kernels, kernel)
    if not names:
        raise UsageError("no kernel is named", "as in `gdnbench step decode-v9`")
    settings = StepSettings.chosen(
        layers=layers, between_mib=between, rounds=rounds, samples=samples, processes=processes, seed=seed
    )
    ways, conditions = parse_names(Way, path, "--path"), parse_names(L2, l2, "--l2")
    catalog = load_catalog()
    subjects = requested_cases(catalog, op, options.joined(names), options.sizes(shape))
    card = select_gpu(gpu, list_gpus())
    if card is None:
        raise MachineError("a step is measured on a GPU, and there is none here", "see `gdnbench doctor`")
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    cases = make_cases(subjects, catalog.entries, ways, conditions, settings)
    of = catalog.entries[subjects[0].variant.kernel].op
    plan = StepPlan(catalog, of, card, cases, settings, command, label)
    with watch(quiet=quiet) as observer:
        finished = measure_plan(plan, results, observer)
    print_step(finished.path, json=json, csv=csv)
    if finished.interrupted:
        from gdnbench.errors import ExitCode

        raise typer.Exit(ExitCode.INTERRUPTED)
    timed = [status for status in finished.statuses if status.value != "unsupported"]
    raise typer.Exit(exit_code_of_statuses(timed, timed))


_LEGEND = (
    "µs a layer. step: event to event from an idle stream, host and GPU together; queued: the same, all enqueued "
    "before the GPU begins; kernels: the sum of the kernels' own times (CUPTI), ramp and tail included; "
    "gap: queued less kernels; "
    "host: to enqueue. ± is half of a 95% interval over rounds and processes; vs: that path's step over this one's."
)
_LAUNCH_LEGEND = (
    "µs a launch of an empty kernel. host: to enqueue it, 200 in a row; gap: from the start of one to the start of the "
    "next, all enqueued before the GPU begins (CUPTI)."
)


def print_step(folder: Path, *, json: bool, csv: bool) -> None:
    """Prints a stored step, or stored launches; raises RunFormatError if the run is damaged or its table missing."""
    info, steps, ways = read_info(folder), read_steps(folder), read_launch_ways(folder)
    records = [*map(asdict, steps), *map(asdict, ways)]
    if not records:
        refuse_lost_rows(folder, info.op)
    answer = Answer(
        text=lambda _: _text(info, steps, ways),
        document=lambda: {"run": info_document(info), "rows": records},
        records=lambda: records,
        next=command("show", info.run_id, "--csv", results=folder.parent),
    )
    print_answer(answer, json=json, csv=csv)


def _text(info: RunInfo, steps: Sequence[StepRow], ways: Sequence[LaunchWayRow]) -> Iterator[Block]:
    yield _headline(info, steps)
    yield from _steps(steps) if steps else ()
    if ways:
        yield Table(_WAY_COLUMNS, [row for row in ways if row.status is Status.OK])
        for way in ways:
            if way.status is not Status.OK:
                yield Note(f"{way.way}, {way.arguments} arguments: {way.reason}", "legend")
        yield ""
        yield Note(_LAUNCH_LEGEND, "legend")
    yield from (Note(warning, "warning") for warning in info.warnings)


def _headline(info: RunInfo, steps: Sequence[StepRow]) -> Text:
    gpu = info.machine.get("gpu") or {}
    what = f"a step of {steps[0].layers} layers of {info.op}" if steps else "launches of an empty kernel"
    settings = info.settings
    measured = f"{settings['rounds']} rounds of {settings['samples']} samples"
    measured += f" in {plural(settings.get('processes', 1), 'process', 'processes')}"
    if steps and steps[0].between_mib:
        measured += f", {steps[0].between_mib:g} MiB read between two layers"
    return head_line(f"{what} on {gpu.get('name') or info.gpu}", measured, complete=info.complete)


def _steps(rows: Sequence[StepRow]) -> Iterator[Block]:
    for workload, l2 in dict.fromkeys((row.workload, row.l2) for row in rows):
        measured = [row for row in rows if (row.workload, row.l2) == (workload, l2)]
        yield ""
        yield Note(f"{workload}, L2 {l2}", "title")
        yield Table(_COLUMNS, [row for row in measured if row.step_us is not None and not row.is_again])
        for row in measured:
            if row.is_again and row.speedup is not None:
                yield Note(_control(row), "caution" if row.verdict in {"faster", "slower"} else "")
        for row in measured:
            if row.status is not Status.OK and not row.is_again:
                yield Note(f"{row.label} {row.path}: {row.reason}", "failure" if row.status.is_failure else "legend")
    yield ""
    yield Note(_LEGEND, "legend")


def _control(row: StepRow) -> str:
    low, high, value = row.speedup_lo or math.nan, row.speedup_hi or math.nan, row.speedup or math.nan
    spread = plus_minus(relative_half_width(value, low, high))
    return f"A/A: {row.label} {row.path} against itself {factor(value)}{spread} {row.verdict}"


def _versus(row: StepRow) -> Text:
    if row.speedup is None or row.speedup_lo is None or row.speedup_hi is None:
        return Text("")
    spread = plus_minus(relative_half_width(row.speedup, row.speedup_lo, row.speedup_hi))
    return verdict_cell(row.verdict, f"{factor(row.speedup)}{spread} {row.verdict}")


def _plain(value: float | None) -> str:
    return "" if value is None else time_text(value)


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return _plain(value)
    return f"{time_text(value)}{plus_minus(relative_half_width(value, low, high))}"


def _absolute(value: float | None, low: float | None, high: float | None) -> str:
    """Formats a difference with half of its interval in microseconds: a share of what may be 0 says nothing."""
    if value is None or low is None or high is None or math.isinf(high - low):
        return _plain(value)
    return f"{time_text(value)} ±{time_text((high - low) / 2)}"


_COLUMNS: list[Column[StepRow]] = [
    Column("", lambda row: row.label, "kernel", fold=True),
    Column("", lambda row: row.path, "path"),
    Column("", lambda row: _with_interval(row.step_us, row.step_lo_us, row.step_hi_us), "step", right=True),
    Column("", lambda row: _plain(row.queued_us), "queued", right=True, drop=1),
    Column("", lambda row: _plain(row.kernels_us), "kernels", right=True, drop=3),
    Column("", lambda row: _absolute(row.gap_us, row.gap_lo_us, row.gap_hi_us), "gap", right=True, drop=4),
    Column("", lambda row: _plain(row.host_us), "host", right=True, drop=2),
    Column("", lambda row: row.speedup, "vs", _versus, right=True),
]

_WAY_COLUMNS: list[Column[LaunchWayRow]] = [
    Column("", lambda row: row.way, "way"),
    Column("", lambda row: str(row.arguments or "own"), "arguments", right=True),
    Column("", lambda row: _with_interval(row.host_us, row.host_lo_us, row.host_hi_us), "host", right=True),
    Column("", lambda row: _with_interval(row.gap_us, row.gap_lo_us, row.gap_hi_us), "gap", right=True),
]
