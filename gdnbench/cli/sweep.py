"""`gdnbench sweep`: which params are best?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import RESULTS, Batches, Csv, Gpu, Heads, Json, Op, Quiet, Results


def sweep(
    kernels: Annotated[
        list[str] | None, typer.Argument(metavar="[KERNEL]…", help="Names or globs; all that have the params.")
    ] = None,
    kernel: Annotated[str, typer.Option("--kernel", "-k", help="The same, separated by commas.")] = "",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME[=V,V…]", help="A param and the values to try; repeatable."),
    ] = None,
    op: Op = "decode",
    gpu: Gpu = "auto",
    shape: Batches = "",
    heads: Heads = "",
    budget: Annotated[str, typer.Option(metavar="TIME", help="What measuring may take: 90s, 2m.")] = "60s",
    samples: Annotated[int, typer.Option(help="Samples per round.")] = 100,
    margin: Annotated[float, typer.Option(help="Relative difference that counts as none.")] = 0.005,
    baseline: Annotated[str, typer.Option(help="What to compare with; the first kernel as it is by default.")] = "",
    seed: Annotated[int | None, typer.Option(help="Of inputs and order; fresh by default.")] = None,
    step_limit: Annotated[float, typer.Option(help="Seconds that one step of one kernel may take.")] = 30.0,
    label: Annotated[str, typer.Option(help="Becomes part of the sweep's name.")] = "sweep",
    plot: Annotated[Path | None, typer.Option(help="Also draw it into a PNG or SVG file.")] = None,
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Print the best of each shape as a declaration.")
    ] = False,
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
    from gdnbench.bench.exitcode import exit_code_of_sweep
    from gdnbench.bench.sweeping import choose_sweep_settings, make_sweep_request, open_sweep
    from gdnbench.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.machine import list_gpus, select_gpu
    from gdnbench.report.sweep_figure import check_figure, draw_sweep
    from gdnbench.report.sweep_output import print_sweep

    if plot:
        check_figure(plot)
    catalog = load_catalog()
    chosen = select_gpu(gpu, list_gpus())
    settings = choose_sweep_settings(budget=budget, samples=samples, seed=seed, margin=margin, step_limit_s=step_limit)
    request = make_sweep_request(
        catalog,
        op,
        [*(kernels or []), *filter(None, [kernel])],
        param or [],
        axes=shape,
        heads=heads,
        settings=settings,
        gpu=chosen,
        baseline=baseline,
        label=label,
    )
    with watch(quiet=quiet) as observer:
        finished = open_sweep(catalog, request, chosen, results, observer).run()
    print_sweep(finished.path, json=json, csv=csv, dispatch=emit_dispatch)
    if plot:
        draw_sweep(finished.path, plot)
    raise typer.Exit(
        exit_code_of_sweep(finished.analysis.measurements, finished.info.swept, interrupted=finished.interrupted)
    )
