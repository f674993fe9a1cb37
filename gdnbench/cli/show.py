"""`gdnbench show`: a stored run's table again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import Csv, Json, Results, Run, Suite, joined
from gdnbench.places import RESULTS


def show(
    run: Run = "",
    results: Results = RESULTS,
    plot: Annotated[Path | None, typer.Option(help="Of a sweep: also draw it into a PNG or SVG file.")] = None,
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Of a sweep: print the best of each shape as a declaration.")
    ] = False,
    suite: Suite = "",
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KERNEL,…", help="With a suite: compare with the fastest of these at each workload."),
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Print a stored run's or sweep's table again; the latest one by default. Needs no GPU.

    With `--suite contest`, also the weighted geometric mean of each kernel over the
    workloads of the suite, if the run has them.
    """
    from gdnbench.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.report.picture_file import check_picture
    from gdnbench.report.run_output import print_run
    from gdnbench.report.sweep_figure import draw_sweep
    from gdnbench.report.sweep_output import print_sweep
    from gdnbench.store import find_run, read_info, read_sweep

    folder = find_run(results, run)
    if plot:
        check_picture(plot)
    if plot or emit_dispatch or read_sweep(folder):
        if suite or over:
            raise UsageError("a sweep races the points of a kernel, and is not summed up", "leave --suite out")
        print_sweep(folder, json=json, csv=csv, dispatch=emit_dispatch)
    else:
        chosen = load_catalog().ops[read_info(folder).op].suite(suite) if suite else None
        print_run(folder, json=json, csv=csv, suite=chosen, over=tuple(filter(None, joined(over).split(","))))
    if plot:
        draw_sweep(folder, plot)
