"""`gdnbench compare`: sets runs, GPUs or published figures side by side, or measures two git revisions of a kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.errors import UnknownNameError
from gdnbench.origin import RESULTS, out_option
from gdnbench.verbs import options
from gdnbench.verbs.options import complete_kernels, complete_runs

_OF_REVISIONS = ("gpu", "on", "shape", "suite", "profile", "rounds", "quick", "seed", "label", "quiet")
_OF_RUNS = ("row", "col", "shown", "markdown")


def compare(
    ctx: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A run (id, its start, label, folder, or a GPU's name for the latest), published/NAME, or a commit.",
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
    margin: options.MarginOption = 0.005,
    fail_on: Annotated[
        str, typer.Option(metavar="slower[:1%]", help="Exit 1 where the last column is slower; sets the margin.")
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="With --fail-on: exit 4 where the interval leaves it open.")
    ] = False,
    kernel: Annotated[
        str,
        typer.Option(
            "--kernel",
            "-k",
            help="Measure this kernel at two git revisions; at one, against the working tree.",
            autocompletion=complete_kernels,
        ),
    ] = "",
    gpu: options.GpuOption = "auto",
    on: options.OnOption = "",
    shape: options.ShapesOption = None,
    suite: options.SuiteOption = "",
    profile: options.ProfileOption = None,
    rounds: options.RoundsOption = None,
    quick: options.QuickOption = False,
    seed: options.SeedOption = None,
    label: options.LabelOption = "",
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Set runs, GPUs, kernels or published figures side by side; measure a kernel at two commits.

    Each column is compared with the first: time of the first / time of the other,
    with an interval and a verdict where both were measured by gdnbench. What two runs
    differ by as a whole, their launch, is taken out. Needs no GPU.

    With --kernel the sources are git revisions of the repository that holds the
    kernel: `gdnbench compare HEAD~1 HEAD --kernel decode-mine` measures both in one
    run, as `run` does, the first as the baseline. `.` is the working tree, and the
    second side where one revision is given. Your checkout stays as it is.
    """
    options.check_mode(ctx, "kernel", _OF_REVISIONS, _OF_RUNS)
    from gdnbench.analyse.comparison import check_regressions, compare_sources, parse_fail_on
    from gdnbench.analyse.ratio import check_settings
    from gdnbench.analyse.sources import load_sources
    from gdnbench.verbs.compare_tables import print_comparison

    settings = check_settings(parse_fail_on(fail_on, margin) if fail_on else margin, strict=strict, gate=fail_on)
    if kernel:
        from gdnbench.verbs.compare_revisions import compare_revisions

        raise typer.Exit(compare_revisions(ctx.params, settings))
    rows, cols, chosen = options.joined(row), options.joined(col), " ".join(shown or ())
    try:
        loaded = load_sources(sources, results)
    except UnknownNameError as error:
        from gdnbench.verbs.compare_revisions import with_revision_hint

        raise with_revision_hint(error, sources, results) from error
    side = compare_sources(loaded, rows=rows, columns=cols, filtered=chosen, settings=settings)
    outcome = check_regressions(side.grid.rows, side.columns[-1].ratios, settings.margin) if fail_on else None
    given = {"--rows": rows, "--cols": cols, "--filter": chosen}
    command = [*sources, *(part for name, value in given.items() if value for part in (name, value))]
    command += out_option(results)
    print_comparison(side, outcome, command, json=json, csv=csv)
    raise typer.Exit(outcome.exit_code(strict=strict) if outcome else 0)
