"""`gdnbench show --contest`: the contest's verdict and score of each kernel, beside gdnbench's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from gdnbench.analyse.contest import ContestResult, ContestRow, contest_of_run, has_workloads
from gdnbench.catalog.catalog import find_op, load_catalog
from gdnbench.catalog.select import op_option
from gdnbench.model.declaration import CONTEST_SUITE, CONTEST_TOLERANCE, contest_baseline
from gdnbench.model.status import Status
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import NAME_STYLE, cell, factor, passed_cell, status_cell
from gdnbench.store.find import find_run
from gdnbench.store.info import read_info
from gdnbench.verbs.run_notes import MOST_NAMED, headline
from gdnbench.wording import first_line, first_of, plural

_TOLERANCE = {"pass": passed_cell(passed=True), "fail": passed_cell(passed=False), "unknown": Text("?", "yellow")}


def print_contest(runs: Sequence[str], results: Path, suite: str, over: str, *, json: bool, csv: bool) -> None:
    """Prints the scores of each run, and, for several ops, their joint score."""
    catalog, suite = load_catalog(), suite or CONTEST_SUITE
    references = [label for label in over.split(",") if label]
    serves = partial(has_workloads, ops=catalog.ops, suite=suite)
    folders = [find_run(results, run, serves=serves) for run in runs]
    scored = [contest_of_run(folder, find_op(catalog, read_info(folder).op), suite, references) for folder in folders]
    together = _together(scored)
    tables = [_table(each) for each in scored]
    answer = Answer(
        tables,
        text=lambda _width: _text(scored, tables, together),
        document=lambda: {"runs": [table.document for table in tables], "together": together},
        next=_next(scored),
    )
    print_answer(answer, json=json, csv=csv)


def _text(
    scored: Sequence[ContestResult], tables: Sequence[Table[ContestRow]], together: dict[str, Any] | None
) -> Iterator[Block]:
    for each, table in zip(scored, tables, strict=True):
        if each is not scored[0]:
            yield ""
        yield headline(each.info)
        yield table
    if together:
        parts = ", ".join(f"{op} {factor(score)} ({label})" for op, (label, score) in together["best"].items())
        yield ""
        yield Note(f"together {factor(together['score'])}: the mean of {parts}", "summary")


def _together(scored: Sequence[ContestResult]) -> dict[str, Any] | None:
    """Returns the mean of the best scores of several ops, as the contest has of decode and prefill, or None."""
    best: dict[str, tuple[str, float]] = {}
    for each in scored:
        rows = [row for row in each.rows if row.score and row.status is Status.OK]
        if rows and rows[0].score and rows[0].score > best.get(each.info.op, ("", 0.0))[1]:
            best[each.info.op] = (rows[0].label, rows[0].score)
    if len(best) < 2 or len(best) < len({each.info.op for each in scored}):
        return None
    return {"score": sum(score for _, score in best.values()) / len(best), "best": best}


def _table(scored: ContestResult) -> Table[ContestRow]:
    info = scored.info
    by_cupti = any(row.cupti_score is not None for row in scored.rows)
    reference = scored.over[0] if len(scored.over) == 1 else ""
    columns: list[Column[ContestRow]] = [
        Column("run_id", lambda _: info.run_id, only="csv"),
        Column("op", lambda _: info.op, only="csv"),
        Column("over", lambda _: ",".join(scored.over), only="csv"),
        Column("label", lambda row: row.label, "kernel", style=NAME_STYLE, fold=True),
        Column("tolerance", lambda row: row.tolerance, f"{CONTEST_TOLERANCE:g}", lambda row: _TOLERANCE[row.tolerance]),
        Column("contest_error", lambda row: None if math.isnan(row.worst_error) else row.worst_error),
        Column("fails_at", lambda row: str(row.fails_at or "")),
        Column(
            "gates",
            lambda row: row.status,
            "our gates",
            lambda row: passed_cell(passed=True) if row.status is Status.OK else status_cell(row.status),
        ),
        Column("reason", lambda row: row.reason),
        Column("passes_there_alone", lambda row: row.passes_there_alone),
        Column("score", lambda row: row.score, "score", lambda row: _score(row.score), style="bold", right=True),
        Column(
            "cupti_score",
            lambda row: row.cupti_score,
            "by CUPTI" if by_cupti else "",
            lambda row: _score(row.cupti_score),
            right=True,
            drop=2,
        ),
        Column(
            "geomean geomean_lo geomean_hi",
            lambda row: row.mean and row.mean.speedup,
            "geomean",
            lambda row: (
                cell("geomean", row.mean.speedup) if row.mean else "1" if row.label == reference and row.score else ""
            ),
            right=True,
            drop=1,
        ),
        Column("best", lambda row: row.speedups[row.best] if row.best else None),
        Column("best_at", lambda row: str(row.best or "")),
        Column("worst", lambda row: row.speedups[row.worst] if row.worst else None),
        Column("worst_at", lambda row: str(row.worst or "")),
        Column("timed", lambda row: row.timed),
        Column("lines", lambda _: scored.lines, only="csv"),
        Column("scored_lines", lambda _: scored.scored_lines, only="csv"),
        Column("speedups", lambda row: {at.key: speedup for at, speedup in row.speedups.items()}, only="json"),
    ]
    head = {
        "run_id": info.run_id,
        "op": info.op,
        "gpu": info.gpu,
        "complete": info.complete,
        "suite": scored.suite.name,
        "over": list(scored.over),
        "over_is_the_contests": scored.over_theirs,
        "lines": scored.lines,
        "scored_lines": scored.scored_lines,
        "workloads": [
            {**workload.cells, "weight": weight, "scored": workload not in scored.missing}
            for workload, weight in scored.suite.weights.items()
        ],
    }
    title = f"{info.run_id}: {_extent(scored)}"
    return Table(columns, scored.rows, title, list(_notes(scored)), head, "kernels")


def _extent(result: ContestResult) -> str:
    """Returns `25 of the 54 workloads of contest`; a workload counts as often as it is listed."""
    lines = f"{result.lines:g} workloads of {result.suite.name}"
    return f"{result.scored_lines:g} of the {lines}" if result.missing else f"all {lines}"


def _score(score: float | None) -> str:
    return "" if score is None else "0" if score == 0 else factor(score)


def _notes(scored: ContestResult) -> Iterator[Note]:
    """Yields each kernel's best and worst workload, the meanings of the columns, and what is unknown."""
    info = scored.info
    for row in scored.rows:
        if row.passes_there_alone:
            reason = f"  {row.label} passes the contest's tolerance and fails our gates: {row.status}: {row.reason}"
            yield Note(reason, "caution")
        elif row.fails_at:
            yield Note(f"  {row.label} is outside the contest's tolerance at {row.fails_at.titled}", "failure")
        elif row.status is not Status.OK:
            yield Note(f"  {row.label}: {row.status}: {first_line(row.reason)}", "legend")
        if row.mean and row.best and row.worst and len(row.speedups) > 1:
            best, worst = (f"{factor(row.speedups[at])} at {at.titled}" for at in (row.best, row.worst))
            yield Note(f"  {row.label}: best {best}; worst {worst}", "legend")
    for line in (_reference(scored), *_legend(scored), *_missing(scored)):
        yield Note(line, "legend")
    if any(row.tolerance == "unknown" for row in scored.rows):
        yield Note("?: not known, for the run did not keep that error; a new one does", "legend")
    if not info.complete:
        yield Note("the run was stopped before its end", "caution")


def _reference(scored: ContestResult) -> str:
    info = scored.info
    if scored.over_theirs:
        return f"speedups over {scored.over[0]}, as in the contest, but timed here"
    if len(scored.over) > 1:
        return f"speedups over the fastest of {', '.join(scored.over)} at each workload"
    [over] = scored.over
    whose = "the run's baseline" if over == info.baseline else "as asked"
    theirs = contest_baseline(info.op)
    return f"speedups over {over}, {whose}; the contest's are over {theirs}"


def _legend(scored: ContestResult) -> Iterator[str]:
    rows = scored.rows
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


def _next(scored: Sequence[ContestResult]) -> tuple[str, ...]:
    """Measures what is missing or unknown, else exports the best kernel for the contest."""
    for each in scored:
        if each.missing or any(row.tolerance == "unknown" for row in each.rows):
            return command("run", *op_option(each.info.op), "--suite", each.suite.name)
    last = scored[-1]
    best = next((row.label for row in last.rows if row.score), last.over[0])
    return command("exchange", "export", best, "--suite", last.suite.name, "--to", "contest-files")
