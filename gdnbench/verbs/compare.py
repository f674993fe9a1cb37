"""`gdnbench compare`: sets runs, GPUs or published figures side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.origin import RESULTS, out_option
from gdnbench.verbs.complete import complete_runs
from gdnbench.verbs.options import CsvOption, JsonOption, MarginOption, ResultsOption, joined


def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A run (id, its start, label or folder, or a GPU's name for the latest), or published/NAME.",
            autocompletion=complete_runs,
        ),
    ],
    row: Annotated[
        list[str] | None,
        typer.Option("--rows", metavar="KEY,…", help="What identifies a row: kernel,B; op,shape,label,params."),
    ] = None,
    col: Annotated[
        list[str] | None,
        typer.Option("--cols", metavar="KEY,…", help="What varies: run, gpu, kernel, label, timer, B, …"),
    ] = None,
    shown: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=GLOB…", help="What is shown: 'kernel=decode-v4* B=1,8'."),
    ] = None,
    margin: MarginOption = 0.005,
    fail_on: Annotated[
        str, typer.Option(metavar="slower[:1%]", help="Exit 1 where the last column is slower; sets the margin.")
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="With --fail-on: exit 4 where the interval leaves it open.")
    ] = False,
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Set runs, GPUs, kernels or published figures side by side.

    Each column is compared with the first: time of the first / time of the other,
    with an interval and a verdict where both were measured by gdnbench. What two runs
    differ by as a whole, their launch, is taken out. Needs no GPU.
    """
    from gdnbench.analyse.comparison import check_regressions, compare_sources, parse_fail_on
    from gdnbench.analyse.ratio import check_settings
    from gdnbench.analyse.sources import load_sources
    from gdnbench.verbs.compare_tables import print_comparison

    rows, cols, chosen = joined(row), joined(col), " ".join(shown or ())
    settings = check_settings(parse_fail_on(fail_on, margin) if fail_on else margin, strict=strict, gate=fail_on)
    side = compare_sources(load_sources(sources, results), rows=rows, columns=cols, filtered=chosen, settings=settings)
    outcome = check_regressions(side.grid.rows, side.columns[-1].ratios, settings.margin) if fail_on else None
    options = {"--rows": rows, "--cols": cols, "--filter": chosen}
    command = [*sources, *(part for name, value in options.items() if value for part in (name, value))]
    command += out_option(results)
    print_comparison(side, outcome, command, json=json, csv=csv)
    raise typer.Exit(outcome.exit_code(strict=strict) if outcome else 0)
