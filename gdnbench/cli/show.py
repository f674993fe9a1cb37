"""`gdnbench show`: prints a stored run or sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import CsvOption, JsonOption, ResultsOption, RunsArgument, SuiteOption, joined
from gdnbench.places import RESULTS


def show(
    runs: RunsArgument = None,
    results: ResultsOption = RESULTS,
    plot: Annotated[Path | None, typer.Option(help="Of a sweep: also draw it into a PNG, SVG or PDF file.")] = None,
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Of a sweep: print the best of each workload as a declaration.")
    ] = False,
    suite: SuiteOption = "",
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KERNEL,…", help="With a suite: compare with the fastest of these at each workload."),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="PROFILE", help="Of several distributions of inputs in the run: this one alone.")
    ] = "",
    by_card: Annotated[
        bool, typer.Option("--by-card", help="Of several runs: each card's own times beneath those of all.")
    ] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help="Also each kernel's largest errors against the oracle.")
    ] = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print a stored run's or sweep's table again; the latest one by default. Needs no GPU.

    Several runs of one op and GPU model are joined into one table, whose intervals
    hold what cards differ by: `gdnbench show RUN RUN`.

    With `--suite contest`, also the weighted geometric mean of each kernel over the
    workloads of the suite; a run that measured a suite has it without. `--over
    prefill-fla,prefill-flashinfer` compares it with the best of these libraries at
    each workload, and says at how many a kernel is slower, and where most. Of a run
    with several distributions of inputs a kernel's mean is its worst over them, and
    `--profile never` has that of one.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.report.cards.table import print_joint
    from gdnbench.report.charts.plot import check_picture, draw_sweep
    from gdnbench.report.run.errors import print_errors
    from gdnbench.report.run.table import print_run
    from gdnbench.report.step import print_step
    from gdnbench.report.sweep import print_sweep
    from gdnbench.store.find import find_run
    from gdnbench.store.info import read_info
    from gdnbench.store.step import is_step
    from gdnbench.store.sweep import read_sweep

    folders = [find_run(results, run) for run in runs or [""]]
    if len(folders) > 1:
        if suite or over or plot or emit_dispatch or errors or profile:
            alone = "--suite, --over, --profile, --plot, --emit-dispatch and --errors"
            raise UsageError(f"{alone} are for one run", "name one run")
        print_joint(folders, json=json, csv=csv, by_card=by_card)
        return
    if errors and (json or csv):
        raise UsageError("--errors is for tables; --json has them anyway", "leave --errors out")
    if by_card:
        raise UsageError("--by-card is for several runs", "gdnbench show RUN RUN --by-card")
    folder = folders[0]
    if is_step(folder):
        if suite or over or plot or emit_dispatch or errors or profile:
            raise UsageError("a step has a table alone", f"gdnbench show {folder.name}")
        print_step(folder, json=json, csv=csv)
        return
    if plot:
        check_picture(plot)
    if plot or emit_dispatch or read_sweep(folder):
        if suite or over:
            raise UsageError(
                "a sweep is not summed up over a suite: it races the points of a kernel", "leave --suite out"
            )
        print_sweep(folder, json=json, csv=csv, dispatch=emit_dispatch)
    else:
        chosen = load_catalog().ops[read_info(folder).op].suite(suite) if suite else None
        over_labels = tuple(filter(None, joined(over).split(",")))
        print_run(folder, json=json, csv=csv, suite=chosen, over=over_labels, profile=profile)
    if errors:
        print_errors(read_info(folder))
    if plot:
        draw_sweep(folder, plot)
