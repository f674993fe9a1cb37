"""`gdnbench show`: a stored run's table again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import Csv, Json, Results, Run
from gdnbench.places import RESULTS


def show(
    run: Run = "",
    results: Results = RESULTS,
    plot: Annotated[Path | None, typer.Option(help="Of a sweep: also draw it into a PNG or SVG file.")] = None,
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Of a sweep: print the best of each shape as a declaration.")
    ] = False,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Print a stored run's or sweep's table again; the latest one by default. Needs no GPU."""
    from gdnbench.report.picture_file import check_picture
    from gdnbench.report.run_output import print_run
    from gdnbench.report.sweep_figure import draw_sweep
    from gdnbench.report.sweep_output import print_sweep
    from gdnbench.store import find_run, read_sweep

    folder = find_run(results, run)
    if plot:
        check_picture(plot)
    if plot or emit_dispatch or read_sweep(folder):
        print_sweep(folder, json=json, csv=csv, dispatch=emit_dispatch)
    else:
        print_run(folder, json=json, csv=csv)
    if plot:
        draw_sweep(folder, plot)
