"""`gdnbench explain`: why is it slow, and what is to be tried next?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import PROFILES, RESULTS, Csv, Heads, Json, Op, Profiles, Quiet, Results


def explain(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="Its name, params after colons.")],
    op: Op = "decode",
    gpu: Annotated[str, typer.Option(help="auto, or a model (h200, b200), which need not be here.")] = "auto",
    shape: Annotated[str, typer.Option("--shape", metavar="B=N", help="One batch size.")] = "",
    heads: Heads = "",
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A report of ncu's: .ncu-rep or .csv.")
    ] = None,
    profiles: Profiles = PROFILES,
    results: Results = RESULTS,
    json: Json = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Say what takes a kernel's time, and what to try next. Needs no GPU.

    At most three causes, ranked by the share of the time that each explains, with
    the evidence and an experiment to run. Reads the newest profile of `gdnbench ncu`,
    the last run, and what the compiler makes of the kernel: the most with all three.
    """
    from gdnbench.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.diagnose.gather import Question, gather
    from gdnbench.diagnose.ranking import rank
    from gdnbench.report.explain_output import print_explained

    question = Question(kernel, op, shape, heads, gpu, file, profiles, results)
    with watch(quiet=quiet) as observer:
        evidence = gather(load_catalog(), question, observer)
    print_explained(evidence, rank(evidence), json=json, csv=csv)
