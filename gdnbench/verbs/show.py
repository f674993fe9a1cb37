"""`gdnbench show`: a stored run or sweep again, several runs as one, its scores in the contest, or a chart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from gdnbench.analyse.cards import Card, Joint, join_runs
from gdnbench.analyse.suite import fastest_of_joint
from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.origin import RESULTS, out_option
from gdnbench.render.console import message_console
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Note
from gdnbench.render.units import flops_bind
from gdnbench.store.find import find_run
from gdnbench.store.find import has_times as run_has_times
from gdnbench.store.info import is_step, read_info, workload_titles
from gdnbench.store.tables import read_sweep
from gdnbench.verbs import options
from gdnbench.verbs.base import VIEW_OPTIONS
from gdnbench.verbs.run_clocks import LEGEND, Clocks, clock_blocks, has_times
from gdnbench.verbs.run_clocks import flat_rows as rows_of_run
from gdnbench.verbs.run_notes import fastest_lines, head_line, legend, warning_notes, with_inputs
from gdnbench.verbs.run_tables import WorkloadView, print_run, rows_at
from gdnbench.wording import first_of, plural

_NO_CONTEST = ("emit_dispatch", "profile")
_NO_CHART = ("suite", "over", "json", "csv", "contest", *VIEW_OPTIONS)


def show(
    ctx: typer.Context,
    runs: options.RunsArgument = None,
    results: options.ResultsOption = RESULTS,
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Of a sweep: print the best of each workload as a declaration.")
    ] = False,
    suite: options.SuiteOption = "",
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KERNEL,…", help="With a suite: compare with the fastest of these at each workload."),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="PROFILE", help="Of several distributions of inputs in the run: this one alone.")
    ] = "",
    contest: Annotated[
        bool,
        typer.Option("--contest", help="Scores by the FlashInfer contest's rule; of runs of two ops also of both."),
    ] = False,
    chart: Annotated[
        Literal["roofline"] | None, typer.Option(metavar="CHART", help="Draw this into a file instead: roofline.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Of a chart: the PNG or SVG file.")
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel",
            "-k",
            metavar="KERNEL,…",
            help="Of a chart: names or globs, or all; the baseline, floors and five fastest.",
            autocompletion=options.complete_kernels,
        ),
    ] = None,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
) -> None:
    """Print a stored run's or sweep's table again; the latest one by default. Needs no GPU.

    Several runs of one op and GPU model are joined into one table, whose intervals
    hold what cards differ by: `gdnbench show RUN RUN`.

    With `--suite contest`, also the weighted geometric mean of each kernel over the
    workloads of the suite, at the worst of several distributions of inputs; `--over
    prefill-fla,prefill-flashinfer` compares it with the best of these at each workload.

    With `--contest`, the scores of the FlashInfer contest: the arithmetic mean of the
    speedups over FlashInfer's kernel, else the baseline, and 0 if any number is outside
    its tolerance of 1e-2; beside it our gates and our mean. Of a run of `decode` and one
    of `prefill`, also the score of both together.

    With `--chart`: roofline is FLOP/s against FLOPs a byte of the op's declared work,
    below the measured copying floor and the rated peak.
    """
    from gdnbench.verbs.step import print_step
    from gdnbench.verbs.sweep import print_sweep

    options.check_mode(ctx, "chart", ("output", "kernel"), (*_NO_CHART, *_NO_CONTEST))
    options.check_mode(ctx, "contest", (), _NO_CONTEST)
    if chart:
        _draw(runs or [""], results, options.joined(kernel), output)
        return
    if contest:
        from gdnbench.verbs.show_contest import print_contest

        print_contest(runs or [""], results, suite, options.joined(over), json=json, csv=csv)
        return
    folders = [find_run(results, run) for run in runs or [""]]
    folder, is_alone = folders[0], not (suite or over or emit_dispatch or profile)
    if len(folders) > 1:
        if not is_alone:
            raise UsageError("--suite, --over, --profile and --emit-dispatch are for one run", "name one run")
        print_joint(folders, json=json, csv=csv)
    elif is_step(folder):
        if not is_alone:
            raise UsageError("a step has a table alone", f"gdnbench show {folder.name}")
        print_step(folder, json=json, csv=csv)
    elif emit_dispatch or read_sweep(folder):
        if suite or over:
            raise UsageError(
                "a sweep is not summed up over a suite: it races the points of a kernel", "leave --suite out"
            )
        print_sweep(folder, json=json, csv=csv, dispatch=emit_dispatch)
    else:
        chosen = load_catalog().ops[read_info(folder).op].suite(suite) if suite else None
        over_labels = tuple(filter(None, options.joined(over).split(",")))
        print_run(folder, json=json, csv=csv, suite=chosen, over=over_labels, profile=profile)


def _draw(runs: Sequence[str], results: Path, kernels: str, output: Path | None) -> None:
    from gdnbench.report.charts.roofline import draw_roofline
    from gdnbench.report.charts.theme import check_picture

    if len(runs) > 1:
        raise UsageError("a chart is of one run", "name one run")
    if output is None:
        raise UsageError("a chart is drawn into a file, and none is named", "add -o roofline.png")
    check_picture(output, "roofline.png")
    draw_roofline(find_run(results, runs[0], serves=None if runs[0] else run_has_times), output, kernels)
    message_console().print(f"drawn into {output}", markup=False, soft_wrap=True)


def print_joint(folders: Sequence[Path], *, json: bool, csv: bool) -> Joint:
    """Joins and prints runs, with the card as a random effect."""
    joint = join_runs(folders)
    answer = Answer(
        text=partial(_text, joint),
        document=lambda: _document(joint),
        records=lambda: _flat_rows(joint),
        next=[*show_words(folders), "--csv"],
    )
    print_answer(answer, json=json, csv=csv)
    return joint


def show_words(folders: Sequence[Path]) -> list[str]:
    """Returns the command that prints the joint table of stored runs."""
    parents = list(dict.fromkeys(folder.parent for folder in folders))
    if len(parents) > 1:
        return ["gdnbench", "show", *map(str, folders)]
    return ["gdnbench", "show", *(folder.name for folder in folders), *out_option(parents[0])]


def _document(joint: Joint) -> dict[str, Any]:
    strays = {stray.card: stray.share for stray in joint.strays}
    return {
        "runs": [run.info.run_id for run in joint.runs],
        "op": joint.info.op,
        "gpu": joint.info.gpu,
        "gpu_name": joint.runs[0].gpu_name,
        "cards": [
            {
                "uuid": card.uuid,
                "index": card.index,
                "host": card.host,
                "runs": list(card.runs),
                "processes": card.processes,
                "rounds": card.rounds,
                "sm_mhz": card.sm_mhz,
                "deviation": card.deviation.share,
                "deviation_error": card.deviation.error,
                "strays_by": strays.get(number),
            }
            for number, card in enumerate(joint.cards)
        ],
        "measurements": _flat_rows(joint),
        "warnings": list(joint.warnings),
        "left_out": {why: list(cases) for why, cases in joint.left_out.items()},
    }


def _flat_rows(joint: Joint) -> list[dict[str, Any]]:
    """Returns a row per case and clock, as of a run, without the run; `card` is empty for all cards together."""
    rows = _rows(joint, [*joint.measurements, *joint.failed], joint.clocks, card="", cards=len(joint.cards))
    for uuid, card in joint.by_card.items():
        rows += _rows(card, card.measurements, card.clocks, card=uuid, cards=1)
    return rows


def _rows(
    joint: Joint, measurements: Sequence[Measurement], clocks: Clocks, *, card: str, cards: int
) -> list[dict[str, Any]]:
    of_a_run = {"run_id", "timestamp"}
    return [
        {"cards": cards, "card": card, **{name: value for name, value in row.items() if name not in of_a_run}}
        for row in rows_of_run(joint.info, measurements, clocks)
    ]


_SHOWN = 6  # number of left-out cases that are named
_TIMES = " \u00d7 "


def _text(joint: Joint, _width: int) -> Iterator[Block]:
    info, over = joint.info, "rounds, processes and cards" if len(joint.cards) > 1 else "rounds and processes"
    yield _headline(joint)
    yield from warning_notes(joint.warnings)
    yield from (Text(_stray_line(joint.cards, stray.card, stray.share), "bold yellow") for stray in joint.strays)
    flops, by_kernel = flops_bind(joint.measurements), has_times(joint.clocks)
    titles = workload_titles(info)
    printed: set[str] = set()
    for workload in dict.fromkeys(row.case.workload for row in (*joint.measurements, *joint.failed)):
        timed = rows_at(workload, joint.measurements)
        rows = [*timed, *rows_at(workload, joint.failed)]
        clocks = {clock: rows_at(workload, each) for clock, each in joint.clocks.items()}
        kernel_times, title = clocks.get("cupti", ()) if by_kernel else None, titles.get(workload, str(workload))
        view = WorkloadView(info, rows, title, kernel_times, flops=flops)
        yield from view.blocks(printed)
        yield from clock_blocks(info, timed, clocks)
    yield ""
    first = legend(info, flops=flops, over=over, by_kernel=by_kernel)
    yield Note("\n".join([first, *(LEGEND if joint.clocks else ())]), "meaning")
    for why, cases in joint.left_out.items():
        yield Note(f"{plural(len(cases), 'case')} {why}, so not joined: {first_of(cases, _SHOWN)}", "legend")
    found = {
        workload: fastest_of_joint(info, rows_at(workload, joint.measurements), times)
        for workload, times in joint.times.items()
    }
    best = {workload: each for workload, each in found.items() if each}
    yield from (Note(line, "summary") for line in fastest_lines(best, info))


def _headline(joint: Joint) -> Text:
    info, cards = joint.info, joint.cards
    device = joint.runs[0].gpu_name
    count = f"{len(cards)} " if len(cards) > 1 else ""
    how = f"NVBench, cold L2, {_sampled(cards)} of ≤{info.settings['samples']} samples"
    what = f"{info.op} on {count}{device}{with_inputs(row.case.workload for row in joint.measurements)}"
    return head_line(what, how, complete=all(run.info.complete for run in joint.runs))


def _sampled(cards: Sequence[Card]) -> str:
    """Returns cards, processes per card and rounds per process if all cards are alike, else the totals."""
    processes, rounds = cards[0].processes, cards[0].rounds
    alike = all((card.processes, card.rounds) == (processes, rounds) for card in cards)
    if alike and rounds % max(processes, 1) == 0:
        counts, sign = (len(cards), processes, rounds // max(processes, 1)), _TIMES
    else:
        counts, sign = (len(cards), sum(card.processes for card in cards), sum(card.rounds for card in cards)), ", "
    nouns = (("card", ""), ("process", "processes"), ("round", ""))
    return sign.join(plural(count, *noun) for count, noun in zip(counts, nouns, strict=True))


def _stray_line(cards: Sequence[Card], number: int, share: float) -> str:
    card = cards[number]
    others = [other for other in cards if other is not card]
    others_mhz = [other.sm_mhz for other in others if math.isfinite(other.sm_mhz)]
    clocks = ""
    if others_mhz and math.isfinite(card.sm_mhz):
        clocks = f"; SM clock {card.sm_mhz:.0f} MHz, theirs {sorted(others_mhz)[len(others_mhz) // 2]:.0f}"
    word = "longer" if share > 0 else "shorter"
    if len(others) == 1:
        clocks = clocks.replace("theirs", "its")
        text = f"{card.name} takes {abs(share):.1%} {word} than {others[0].name}{clocks}"
        return f"{text}; two cards do not tell which is usual"
    return f"{card.name} takes {abs(share):.1%} {word} than the others{clocks}"
