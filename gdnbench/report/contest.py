"""Prints `gdnbench show --contest`: the contest's verdict and score of each kernel, beside gdnbench's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.analyse.contest import ContestResult, ContestRow, ContestRun
from gdnbench.catalog.resolve import op_option
from gdnbench.model.declaration import CONTEST_TOLERANCE, contest_baseline
from gdnbench.model.status import Status
from gdnbench.render.console import FittedTable, data_console, plain_table, print_csv, print_json, print_next
from gdnbench.render.units import factor, plus_minus
from gdnbench.report.run.text import MOST_NAMED, headline
from gdnbench.wording import first_of, plural

_TOLERANCE_CELLS = {
    "pass": Text("pass", style="green"),
    "fail": Text("FAIL", style="bold red"),
    "unknown": Text("?", style="yellow"),
}
_BY_CUPTI = "by CUPTI"


def print_contest(scored: Sequence[ContestRun], *, json: bool, csv: bool) -> None:
    """Prints the scores of each run, and, for several ops, their joint score."""
    together = score_together(scored)
    if json:
        print_json({"runs": [_document(each) for each in scored], "together": together})
    elif csv:
        print_csv([row for each in scored for row in _rows(each)])
    else:
        console = data_console()
        for place, each in enumerate(scored):
            if place:
                console.print()
            _print_run(console, each)
        if together:
            console.print()
            told = ", ".join(f"{op} {factor(score)} ({label})" for op, (label, score) in together["best"].items())
            console.print(Text(f"together {factor(together['score'])}: the mean of {told}", style="bold"))
        print_next(console, _next_words(scored))


def score_together(scored: Sequence[ContestRun]) -> dict[str, Any] | None:
    """Returns the mean of each op's best score, or None; of decode and prefill, the contest's for Gated Delta Net.

    None unless there are several ops, each with a kernel that passes and has a score.
    """
    best: dict[str, tuple[str, float]] = {}
    for each in scored:
        rows = [row for row in each.result.rows if row.score and row.status is Status.OK]
        if rows and rows[0].score and rows[0].score > best.get(each.info.op, ("", 0.0))[1]:
            best[each.info.op] = (rows[0].label, rows[0].score)
    if len(best) < 2 or len(best) < len({each.info.op for each in scored}):
        return None
    return {"score": sum(score for _, score in best.values()) / len(best), "best": best}


def _print_run(console: Console, scored: ContestRun) -> None:
    info, result = scored.info, scored.result
    console.print(headline(info))
    console.print(Text(f"{info.run_id}: {_extent(result)}", style="bold"))
    console.print(FittedTable(_table(scored), (_BY_CUPTI, "geomean")))
    for line in _notes(scored):
        console.print(line)


def _extent(result: ContestResult) -> str:
    """Returns `25 of the 54 workloads of contest`; a workload counts as often as it is listed."""
    lines = f"{result.lines:g} workloads of {result.suite.name}"
    return f"{result.scored_lines:g} of the {lines}" if result.missing else f"all {lines}"


def _table(scored: ContestRun) -> Table:
    rows, op = scored.result.rows, scored.info.op
    by_cupti = any(row.cupti_score is not None for row in rows)
    table = plain_table()
    table.add_column("kernel", overflow="fold")
    table.add_column(f"{CONTEST_TOLERANCE:g}", no_wrap=True)
    table.add_column("our gates", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    if by_cupti:
        table.add_column(_BY_CUPTI, justify="right", no_wrap=True)
    table.add_column("geomean", justify="right", no_wrap=True)
    for row in rows:
        cupti = [Text(_score(row.cupti_score))] if by_cupti else []
        table.add_row(
            Text(row.label, style="cyan"),
            _TOLERANCE_CELLS[row.tolerance],
            _gates(row),
            Text(_score(row.score), style="bold"),
            *cupti,
            _mean(row, scored.result, op),
        )
    return table


def _gates(row: ContestRow) -> Text:
    if row.status is Status.OK:
        return Text("pass", style="green")
    return Text(row.status.value, style="red" if row.status.is_failure else "yellow")


def _score(score: float | None) -> str:
    return "" if score is None else "0" if score == 0 else factor(score)


def _mean(row: ContestRow, result: ContestResult, op: str) -> Text:
    if row.mean is None:
        return Text("1" if result.over == (row.label,) and row.score else "")
    return Text(factor(row.mean.speedup.estimate) + plus_minus(row.mean.speedup.relative_half_width))


def _notes(scored: ContestRun) -> Iterator[Text]:
    """Yields each kernel's best and worst workload, the meanings of the columns, and what is unknown."""
    info, result = scored.info, scored.result
    for row in result.rows:
        if row.passes_there_alone:
            told = f"  {row.label} passes the contest's tolerance and fails our gates: {row.status}: {row.reason}"
            yield Text(told, style="yellow")
        elif row.fails_at:
            yield Text(f"  {row.label} is outside the contest's tolerance at {row.fails_at.titled}", style="red")
        elif row.status is not Status.OK:
            yield Text(f"  {row.label}: {row.status}: {_first_line(row.reason)}", style="dim")
        if row.mean and row.best and row.worst and len(row.speedups) > 1:
            best, worst = (f"{factor(row.speedups[at])} at {at.titled}" for at in (row.best, row.worst))
            yield Text(f"  {row.label}: best {best}; worst {worst}", style="dim")
    for line in (_reference(scored), *_legend(scored), *_missing(result), *_unknown(result)):
        yield Text(line, style="dim")
    if not info.complete:
        yield Text("the run was stopped before its end", style="yellow")


def _first_line(reason: str) -> str:
    return next(iter(reason.splitlines()), "")


def _reference(scored: ContestRun) -> str:
    info, result = scored.info, scored.result
    if result.over_theirs:
        return f"speedups over {result.over[0]}, as in the contest, but timed here"
    if len(result.over) > 1:
        return f"speedups over the fastest of {', '.join(result.over)} at each workload"
    [over] = result.over
    whose = "the run's baseline" if over == info.baseline else "as asked"
    theirs = contest_baseline(info.op)
    return f"speedups over {over}, {whose}; the contest's are over {theirs}"


def _legend(scored: ContestRun) -> Iterator[str]:
    rows = scored.result.rows
    timer = "NVBench" if scored.info.on_gpu else "the CPU's clock"
    yield f"{CONTEST_TOLERANCE:g}: every number within the contest's tolerance; our gates are stricter"
    yield f"score: the contest's, a mean of speedups, by {timer}; 0 outside the tolerance"
    if any(row.cupti_score is not None for row in rows):
        yield "by CUPTI: the same of kernels' own times, without the launch"
    yield f"geomean: ours, of the same speedups, with its {scored.info.settings['confidence']:.0%} interval"


def _missing(result: ContestResult) -> Iterator[str]:
    if result.missing:
        named = first_of([workload.titled for workload in result.missing], MOST_NAMED)
        yield f"missing {len(result.missing)} of {plural(len(result.suite.weights), 'size')}: {named}"
    scored = len(result.suite.weights) - len(result.missing)
    partly = {row.label: row.timed for row in result.rows if row.score is None and 0 < row.timed < scored}
    if partly:
        yield f"not at every workload: {', '.join(f'{label} (at {count})' for label, count in partly.items())}"


def _unknown(result: ContestResult) -> Iterator[str]:
    if any(row.tolerance == "unknown" for row in result.rows):
        yield "?: not known, for the run did not keep that error; a new one does"


def _next_words(scored: Sequence[ContestRun]) -> list[str]:
    """Returns the command that measures missing or unknown values, else exports the best kernel for the contest."""
    for each in scored:
        result = each.result
        if result.missing or any(row.tolerance == "unknown" for row in result.rows):
            return ["gdnbench", "run", *op_option(each.info.op), "--suite", result.suite.name]
    last = scored[-1].result
    best = next((row.label for row in last.rows if row.score), last.over[0])
    return ["gdnbench", "exchange", "export", best, "--suite", last.suite.name, "--to", "contest-files"]


def _document(scored: ContestRun) -> dict[str, Any]:
    info, result = scored.info, scored.result
    return {
        "run_id": info.run_id,
        "op": info.op,
        "gpu": info.gpu,
        "complete": info.complete,
        "suite": result.suite.name,
        "over": list(result.over),
        "over_is_the_contests": result.over_theirs,
        "lines": result.lines,
        "scored_lines": result.scored_lines,
        "workloads": [
            {**workload.cells, "weight": weight, "scored": workload not in result.missing}
            for workload, weight in result.suite.weights.items()
        ],
        "kernels": [_kernel(row) for row in result.rows],
    }


def _rows(scored: ContestRun) -> Iterator[Mapping[str, Any]]:
    result = scored.result
    common = {"run_id": scored.info.run_id, "op": scored.info.op, "over": ",".join(result.over)}
    extent = {"lines": result.lines, "scored_lines": result.scored_lines}
    for row in result.rows:
        known = _kernel(row)
        yield {**common, **{name: value for name, value in known.items() if name != "speedups"}, **extent}


def _kernel(row: ContestRow) -> dict[str, Any]:
    speedup = row.mean.speedup if row.mean else None
    return {
        "label": row.label,
        "tolerance": row.tolerance,
        "contest_error": None if math.isnan(row.worst_error) else row.worst_error,
        "fails_at": str(row.fails_at or ""),
        "gates": row.status.value,
        "reason": row.reason,
        "passes_there_alone": row.passes_there_alone,
        "score": row.score,
        "cupti_score": row.cupti_score,
        "geomean": speedup.estimate if speedup else None,
        "geomean_lo": speedup.low if speedup else None,
        "geomean_hi": speedup.high if speedup else None,
        "best": row.speedups[row.best] if row.best else None,
        "best_at": str(row.best or ""),
        "worst": row.speedups[row.worst] if row.worst else None,
        "worst_at": str(row.worst or ""),
        "timed": row.timed,
        "speedups": {workload.key: speedup for workload, speedup in row.speedups.items()},
    }
