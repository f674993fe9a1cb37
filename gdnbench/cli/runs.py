"""`gdnbench runs`: what lies in results, and what may go."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.complete import complete_runs
from gdnbench.cli.confirm import Yes, confirm
from gdnbench.cli.options import Csv, Json, Results
from gdnbench.cli.verb import Verb
from gdnbench.places import RESULTS

runs = typer.Typer(invoke_without_command=True, help="List stored runs; delete or prune them.")


@runs.callback()
def list_stored(ctx: typer.Context, results: Results = RESULTS, json: Json = False, csv: Csv = False) -> None:
    """List stored runs, newest first, with those that were stopped and those that cannot be read.

    `gdnbench runs delete` removes some by name, `gdnbench runs prune` by what they are.
    """
    if ctx.invoked_subcommand:
        return
    from gdnbench.report.runs_table import print_runs
    from gdnbench.store.overview import overview

    print_runs(overview(results), results, json=json, csv=csv)


@runs.command(cls=Verb)
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Ids, or the starts of ids.", autocompletion=complete_runs)
    ],
    results: Results = RESULTS,
    yes: Yes = False,
) -> None:
    """Delete runs with all their files, stopped and damaged ones as well."""
    from gdnbench.report.runs_table import print_deleted, print_doomed
    from gdnbench.store.overview import choose_named, delete_run, overview

    chosen = choose_named(overview(results), names, results)
    print_doomed(chosen)
    confirm(f"{len(chosen)} of the runs in {results} are to be deleted, for good?", yes=yes)
    for run in chosen:
        delete_run(run)
    print_deleted(chosen)


@runs.command(cls=Verb)
def prune(
    older: Annotated[str, typer.Option(metavar="TIME", help="That began so long ago: 30d, 12h.")] = "",
    keep: Annotated[int | None, typer.Option(min=0, help="All but so many, the newest of each GPU and label.")] = None,
    gpu: Annotated[str, typer.Option(help="That ran there: cpu, h200.")] = "",
    stopped: Annotated[bool, typer.Option("--stopped", help="That were stopped, and not resumed.")] = False,
    damaged: Annotated[bool, typer.Option("--damaged", help="That cannot be read.")] = False,
    results: Results = RESULTS,
    yes: Yes = False,
) -> None:
    """Delete the runs of which all that is said holds; without a word of them, none."""
    from gdnbench.report.runs_table import print_deleted, print_doomed
    from gdnbench.store.overview import delete_run, overview
    from gdnbench.store.prune import Wanted, choose_pruned, parse_age

    wanted = Wanted(older_s=parse_age(older), keep=keep, gpu=gpu, stopped=stopped, damaged=damaged)
    chosen = choose_pruned(overview(results), wanted)
    print_doomed(chosen)
    if not chosen:
        return
    confirm(f"{len(chosen)} of the runs in {results} are to be deleted, for good?", yes=yes)
    for run in chosen:
        delete_run(run)
    print_deleted(chosen)
