"""`gdnbench history`: follows one kernel over stored runs and commits, and marks where its time stepped.

Its rows are of several runs, so a stream time, which is comparable inside its run alone, has no column for people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.functions.reference import names_functions
from gdnbench.model.status import Status
from gdnbench.origin import RESULTS
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import VERDICT_STYLES, plus_minus, status_cell, time_unit
from gdnbench.verbs import options
from gdnbench.wording import first_line, plural

if TYPE_CHECKING:
    from gdnbench.analyse.history import History, HistoryRow


SHOWN = 30
"""Rows of a table: what follows from the rounds of two runs is worked out for each, and Rich takes its time, too."""


def history(
    kernels: options.KernelArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: Annotated[
        str, typer.Option(help="A GPU model (h200) or cpu; by default that of the latest run with the kernel.")
    ] = "",
    shape: options.ShapesOption = None,
    profile: options.ProfileOption = None,
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
) -> None:
    """Follow one kernel over stored runs, and mark where it stepped. Needs no GPU.

    A step is what the kernel's time moved by since the run before of the same method,
    less the launch that unchanged cases tell. Beside it stands the ratio to the floor
    (or the baseline) of the same run.
    """
    from gdnbench.analyse.history import (
        check_workloads,
        choose_gpu,
        choose_label,
        choose_op,
        history_of,
        other_gpus,
        usual_workloads,
        with_axes_of,
    )
    from gdnbench.analyse.runs import load_stored_runs
    from gdnbench.catalog.catalog import op_named
    from gdnbench.catalog.request import in_profiles, parse_profiles, parse_workloads
    from gdnbench.render.console import message_console
    from gdnbench.verbs.progress import watch

    name = options.one_term(kernels, kernel, "gdnbench history decode-v4")
    if names_functions([name]):
        raise UsageError(f"{name} is a function, and history is of kernels", _SIDE_BY_SIDE)
    if op:
        op_named(op)
    with watch(quiet=False) as observer:
        stored = load_stored_runs(results, observer)
    label = choose_label([run for run in stored if op in {"", run.op}], name)
    op = op or choose_op(stored, label)
    try:
        found_op = op_named(op)
    except UnknownNameError as error:
        message = f"runs of {label} have no op that is known here, as those of functions"
        raise UnknownNameError(message, _SIDE_BY_SIDE) from error
    requested = in_profiles(
        parse_workloads(found_op, options.sizes(shape)), parse_profiles(found_op, options.joined(profile), stored=True)
    )
    runs = with_axes_of([run for run in stored if run.op == op], found_op)
    model = choose_gpu(runs, label, gpu)
    workloads = requested if shape or profile else usual_workloads(runs, label, model, found_op)
    check_workloads(runs, label, model, workloads)
    chosen = [run for run in runs if run.gpu == model]
    newest = None if json or csv else SHOWN
    histories = [history_of(chosen, label, each, gpu=model, newest=newest) for each in workloads]
    print_answer(_answer(histories, results), json=json, csv=csv)
    others = other_gpus(runs, label, model)
    if gpu in ("", "auto") and others:
        models = ", ".join(f"{name} ({plural(count, 'run')})" for name, count in others.items())
        message_console().print(f"also timed on {models}: --gpu {next(iter(others))}", markup=False)


_SIDE_BY_SIDE = "set its runs side by side: gdnbench compare RUN RUN"
_RUN_ID_START = 15  # characters, `20260102-030405`: enough to name a run on the command line


def _answer(histories: Sequence[History], results: Path) -> Answer:
    tables = [_data(history) for history in histories]
    return Answer(
        tables=tables,
        text=lambda _: _text(histories),
        document=lambda: {"histories": [table.document for table in tables]},
        next=_next(histories, results),
    )


def _data(history: History) -> Table[HistoryRow]:
    from gdnbench.analyse.comparison import card_of

    columns: list[Column[HistoryRow]] = [
        Column("anchor", lambda _row: history.anchor, only="csv"),
        Column("timestamp", lambda row: row.run.timestamp),
        Column("run_id", lambda row: row.run.name),
        Column("commit", lambda row: row.run.conditions.get("commit")),
        Column("dirty", lambda row: row.run.dirty),
        Column("complete", lambda row: row.run.complete),
        Column("gpu", lambda row: row.run.gpu),
        Column("card", lambda row: card_of(row.run)),
        Column("label", lambda row: row.figure.label),
        Column("params", lambda row: str(row.figure.params)),
        Column("*", lambda _row: history.workload.cells),
        Column("status", lambda row: row.figure.status),
        Column("reason", lambda row: row.figure.reason),
        Column("time_us", lambda row: row.figure.time_us),
        Column("time_lo_us", lambda row: row.figure.low_us),
        Column("time_hi_us", lambda row: row.figure.high_us),
        Column("kernel_us", lambda row: row.figure.kernel_time.time_us if row.figure.kernel_time else None),
        Column("ratio ratio_lo ratio_hi", lambda row: row.ratio),
        Column("source_hash", lambda row: row.figure.source_hash),
        Column("changed", lambda row: " ".join(row.changes)),
        Column("since", lambda row: row.since),
        Column("speedup speedup_lo speedup_hi", lambda row: row.change and row.change.speedup),
        Column("judged_by", lambda row: row.kind if row.change else ""),
        Column("step", lambda row: row.change.verdict if row.change and row.is_step else ""),
        Column("changes", lambda row: {name: asdict(change) for name, change in row.changes.items()}, only="json"),
    ]
    head = {
        "label": history.label,
        "gpu": history.gpu,
        "shape": history.workload.cells,
        "anchor": history.anchor,
        "margin": history.margin,
    }
    return Table(columns, history.rows, head=head, rows_key="rows")


def _text(histories: Sequence[History]) -> Iterator[Block]:
    for history in histories:
        yield ""
        title = Text(f"{history.label} {history.workload} on {history.gpu}", style="bold")
        yield Table(_shown(history), history.rows, title, notes=list(_notes(history)))
    yield _legend(histories[-1])


def _shown(history: History) -> list[Column[HistoryRow]]:
    kernel_us = [row.figure.kernel_time.time_us if row.figure.kernel_time else math.nan for row in history.rows]
    unit, times_us = time_unit(kernel_us), dict(zip(map(id, history.rows), kernel_us, strict=True))
    kernel: Column[HistoryRow] = Column("", lambda row: unit.text(times_us[id(row)]), f"kernel {unit.name}", right=True)
    return [
        Column("", _short_id, "run"),
        Column("", _commit, "commit", drop=3),
        *([] if all(map(math.isnan, kernel_us)) else [kernel]),
        Column("", lambda row: row.ratio, _over(history), show=_ratio, drop=1, right=True),
        Column("", lambda row: row.change, "step", show=_step, drop=2, right=True),
        Column("", _changed, "changed", fold=True, drop=4),
    ]


def _notes(history: History) -> Iterator[Note]:
    if history.left_out:
        shown = len(history.rows)
        yield Note(f"the last {shown} of {shown + history.left_out} runs: --csv has the others, too", "legend")
    for row in history.rows:
        if row.figure.status is not Status.OK:
            reason = first_line(row.figure.reason)
            yield Note(f"{_short_id(row)}  {row.figure.status.value}: {reason}", "failure")


def _legend(history: History) -> Note:
    if not history.anchor:
        return Note(
            "no run has a floor or a baseline to take ratios to: steps cannot be judged\n"
            "stream times compare inside one run alone: --csv has them",
            "legend",
        )
    return Note(
        "kernel: kernel time (CUPTI), without the launch. Stream times compare inside\n"
        "one run alone: --csv has them.\n"
        f"{_over(history)}: time over that of {history.anchor} in the same rounds.\n"
        "±: 95% interval over rounds, which does not hold the scatter from run to run.\n"
        f"step: the time moved by over {history.margin:.2%} since the run before of the same method,\n"
        "less the launch that unchanged cases tell, by a 95% interval that holds the scatter;\n"
        "by kernel times (CUPTI) where both runs have them and their cards differ.",
        "meaning",
    )


def _next(histories: Sequence[History], results: Path) -> tuple[str, ...]:
    """Compares the two runs of the largest step; without a step, the first run and the last."""
    for history in histories:
        if row := history.largest_step:
            return command("compare", *_names(history, row.since, row.run.name), results=results)
    first = histories[0]
    names = [row.run.name for row in first.rows if row.figure.status is Status.OK]
    if len(names) > 1:
        return command("compare", *_names(first, names[0], names[-1]), results=results)
    return command("run", "--kernel", first.label, *first.workload.options, results=results)


def _names(history: History, *runs: str) -> list[str]:
    """Returns the starts of the ids of runs, or the whole id where several runs share its start."""
    starts = [_short_id(row) for row in history.rows]
    return [run[:_RUN_ID_START] if starts.count(run[:_RUN_ID_START]) == 1 else run for run in runs]


def _short_id(row: HistoryRow) -> str:
    return row.run.name[:_RUN_ID_START]


def _over(history: History) -> str:
    """Returns the heading of ratios, with the anchor's name without the op's, which the kernel's has too."""
    return f"/ {history.anchor.removeprefix(f'{history.rows[0].figure.op}-')}" if history.anchor else "status"


def _commit(row: HistoryRow) -> str:
    commit = row.run.conditions.get("commit", "")
    return f"{commit[:7] or '-'}{'*' if commit and row.run.dirty else ''}"


def _ratio(row: HistoryRow) -> Text:
    if row.figure.status is not Status.OK or row.ratio is None:
        return status_cell(row.figure.status)
    return Text(f"{row.ratio.estimate:.3f}{plus_minus(row.ratio.relative_half_width)}")


def _step(row: HistoryRow) -> Text:
    if not row.is_step or row.change is None:
        return Text("")
    speedup = row.change.speedup
    moved, low, high = (f"{1 / end - 1:+.1%}" for end in (speedup.estimate, speedup.high, speedup.low))
    return Text(f"{moved} ({low} to {high})", style=VERDICT_STYLES[row.change.verdict])


def _changed(row: HistoryRow) -> str:
    """Names what changed since the row before; --json has the values."""
    return ", ".join([*([] if row.run.complete else ["partial run"]), *row.changes])
