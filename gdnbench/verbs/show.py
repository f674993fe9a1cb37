"""`gdnbench show`: prints a stored run or sweep, its scores in the contest, or draws a chart of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from gdnbench.origin import RESULTS
from gdnbench.verbs import options
from gdnbench.verbs.base import VIEW_OPTIONS
from gdnbench.verbs.complete import complete_kernels

_NO_CONTEST = ("emit_dispatch", "profile", "errors")
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
    errors: Annotated[
        bool, typer.Option("--errors", help="Also each kernel's largest errors against the oracle.")
    ] = False,
    contest: Annotated[
        bool,
        typer.Option("--contest", help="Scores by the FlashInfer contest's rule; of runs of two ops also of both."),
    ] = False,
    chart: Annotated[
        Literal["roofline"] | None,
        typer.Option(metavar="CHART", help="Draw this into a file instead: roofline."),
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
            autocompletion=complete_kernels,
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
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.store.find import find_run
    from gdnbench.store.info import read_info
    from gdnbench.store.tables import is_step, read_sweep
    from gdnbench.verbs.run_clocks import print_errors
    from gdnbench.verbs.run_tables import print_run
    from gdnbench.verbs.show_step import print_step
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
    if len(folders) > 1:
        if suite or over or emit_dispatch or errors or profile:
            alone = "--suite, --over, --profile, --emit-dispatch and --errors"
            raise UsageError(f"{alone} are for one run", "name one run")
        from gdnbench.verbs.show_cards import print_joint

        print_joint(folders, json=json, csv=csv)
        return
    if errors and (json or csv):
        raise UsageError("--errors is for tables; --json has them anyway", "leave --errors out")
    folder = folders[0]
    if is_step(folder):
        if suite or over or emit_dispatch or errors or profile:
            raise UsageError("a step has a table alone", f"gdnbench show {folder.name}")
        print_step(folder, json=json, csv=csv)
        return
    if emit_dispatch or read_sweep(folder):
        if suite or over:
            raise UsageError(
                "a sweep is not summed up over a suite: it races the points of a kernel", "leave --suite out"
            )
        print_sweep(folder, json=json, csv=csv, dispatch=emit_dispatch)
    else:
        chosen = load_catalog().ops[read_info(folder).op].suite(suite) if suite else None
        over_labels = tuple(filter(None, options.joined(over).split(",")))
        print_run(folder, json=json, csv=csv, suite=chosen, over=over_labels, profile=profile)
    if errors:
        print_errors(read_info(folder))


def _draw(runs: Sequence[str], results: Path, kernels: str, output: Path | None) -> None:
    from gdnbench.errors import UsageError
    from gdnbench.render.console import message_console
    from gdnbench.report.charts.roofline import draw_roofline
    from gdnbench.report.charts.theme import check_picture
    from gdnbench.store.find import find_run, has_times

    if len(runs) > 1:
        raise UsageError("a chart is of one run", "name one run")
    if output is None:
        raise UsageError("a chart is drawn into a file, and none is named", "add -o roofline.png")
    check_picture(output, "roofline.png")
    draw_roofline(find_run(results, runs[0], serves=None if runs[0] else has_times), output, kernels)
    message_console().print(f"drawn into {output}", markup=False, soft_wrap=True)
