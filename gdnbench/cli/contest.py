"""`gdnbench contest`: how would the kernels of a stored run score in the FlashInfer contest?"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from gdnbench.cli.options import CsvOption, JsonOption, ResultsOption, RunsArgument, joined
from gdnbench.places import RESULTS


def contest(
    runs: RunsArgument = None,
    results: ResultsOption = RESULTS,
    suite: Annotated[
        str, typer.Option(metavar="NAME", help="The op's suite that has the contest's workloads.")
    ] = "contest",
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KERNEL,…",
            help="Speedups over the fastest of these; by default FlashInfer's kernel, else the run's baseline.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Score the kernels of a stored run as the FlashInfer contest does. Needs no GPU.

    The score is the arithmetic mean of the speedups, each workload counted as often
    as the contest lists it, and 0 if any number is outside its tolerance of 1e-2.
    Beside it: our gates, which are stricter, and our geometric mean with its interval.

    By default of the latest run that measured any of the contest's workloads. Of a
    run of `decode` and one of `prefill`, also the score of both together.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.resolve import find_op
    from gdnbench.compare.contest_of_run import contest_of_run, has_workloads
    from gdnbench.report.contest import print_contest
    from gdnbench.store.find import find_run
    from gdnbench.store.info import read_info

    catalog = load_catalog()
    references = [label for label in joined(over).split(",") if label]
    serves = partial(has_workloads, ops=catalog.ops, suite=suite)
    folders = [find_run(results, run, serves=serves) for run in runs or [""]]
    scored = [contest_of_run(folder, find_op(catalog, read_info(folder).op), suite, references) for folder in folders]
    print_contest(scored, json=json, csv=csv)
