"""`gdnbench plot`: one chart of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.complete import complete_charts, complete_kernels
from gdnbench.cli.options import ResultsOption, ShapesOption, joined, sizes
from gdnbench.places import RESULTS


def plot(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] CHART",
            help="A run as `show` takes it; time, sol, samples, rounds or sweep.",
            autocompletion=complete_charts,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A PNG, SVG or PDF file, not the terminal.")
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel",
            "-k",
            metavar="KERNEL,…",
            help="Names or globs, or all; the baseline, floors and five fastest.",
            autocompletion=complete_kernels,
        ),
    ] = None,
    shape: ShapesOption = None,
    results: ResultsOption = RESULTS,
) -> None:
    """Draw one chart of a stored run, the latest by default. Needs no GPU.

    time: time against batch size or tokens. sol: share of the speed of light. samples:
    how the samples lie. rounds: times over the rounds, which shows drift. sweep: its
    points.
    """
    from gdnbench.report.charts.plot import check_choice, check_picture, draw_chart, print_chart, split_words
    from gdnbench.report.charts.selection import asked_workloads
    from gdnbench.report.console import data_console, message_console
    from gdnbench.store.find import find_run, has_times

    run, chart = split_words(words)
    if output:
        check_picture(output, option="-o")
    folder = find_run(results, run, serves=None if run else has_times)
    workloads, kernels = asked_workloads(folder, sizes(shape)), joined(kernel)
    check_choice(chart, kernels, workloads)
    if output:
        draw_chart(output, chart, folder, kernels, workloads)
        message_console().print(f"drawn into {output}", markup=False, soft_wrap=True)
    else:
        print_chart(data_console(), chart, folder, kernels, workloads)
