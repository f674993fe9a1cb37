"""`gdnbench sweep`: which params are best?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.confirm import Yes, confirm_builds
from gdnbench.cli.options import (
    AlsoKernels,
    Baseline,
    Batches,
    Csv,
    DryRun,
    Gpu,
    Heads,
    Json,
    Kernels,
    Op,
    Quiet,
    Results,
    StepLimit,
    joined,
    sizes,
    terms,
)
from gdnbench.places import RESULTS


def sweep(
    kernels: Kernels = None,
    kernel: AlsoKernels = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME[=V,V…]", help="A param and the values to try; repeatable."),
    ] = None,
    op: Op = "decode",
    gpu: Gpu = "auto",
    shape: Batches = None,
    heads: Heads = None,
    budget: Annotated[str, typer.Option(metavar="TIME", help="What measuring may take: 90s, 2m.")] = "60s",
    samples: Annotated[int, typer.Option(help="Samples per round.")] = 100,
    margin: Annotated[float, typer.Option(help="Relative difference that counts as none.")] = 0.005,
    baseline: Baseline = "",
    seed: Annotated[int | None, typer.Option(help="Of inputs and order; fresh by default.")] = None,
    step_limit: StepLimit = 30.0,
    label: Annotated[str, typer.Option(help="Becomes part of the sweep's name.")] = "sweep",
    plot: Annotated[Path | None, typer.Option(help="Also draw it into a PNG or SVG file.")] = None,
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Print the best of each shape as a declaration.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    results: Results = RESULTS,
    json: Json = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Race every combination of params and say which are best.

    A coarse pass over all points, then ever more rounds of those that may still be
    the best, until they are told apart, tie within the margin, or the budget ends.
    The answer is a plateau: the points that tie, and the simplest of them. Stopped
    at any moment, the same command goes on with the points it has.
    """
    from gdnbench.bench.exitcode import exit_code_of_sweep, refuse_nothing_measured
    from gdnbench.bench.outlook import foresee
    from gdnbench.bench.sweeping import choose_sweep_settings, make_sweep_request, open_sweep
    from gdnbench.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.machine import list_gpus, select_gpu
    from gdnbench.report.outlook_table import print_outlook
    from gdnbench.report.picture_file import check_picture
    from gdnbench.report.sweep_figure import draw_sweep
    from gdnbench.report.sweep_output import print_sweep

    if plot:
        check_picture(plot)
    catalog = load_catalog()
    chosen = select_gpu(gpu, list_gpus())
    settings = choose_sweep_settings(budget=budget, samples=samples, seed=seed, margin=margin, step_limit_s=step_limit)
    request = make_sweep_request(
        catalog,
        op,
        terms(kernels, kernel),
        param or [],
        axes=sizes(shape),
        heads=joined(heads),
        settings=settings,
        gpu=chosen,
        baseline=baseline,
        label=label,
    )
    outlook = foresee(catalog, request, chosen)
    if dry_run:
        print_outlook(outlook, sys.argv[1:], json=json, csv=csv)
        return
    confirm_builds(outlook, yes=yes)
    with watch(quiet=quiet) as observer:
        finished = open_sweep(catalog, request, chosen, results, observer).run()
    print_sweep(finished.path, json=json, csv=csv, dispatch=emit_dispatch)
    if plot:
        draw_sweep(finished.path, plot)
    rows = finished.analysis.measurements
    code = exit_code_of_sweep(rows, finished.info.swept, interrupted=finished.interrupted)
    refuse_nothing_measured(code, rows)
    raise typer.Exit(code)
