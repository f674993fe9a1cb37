"""`gdnbench explain`: why is it slow, and what is to be tried next?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.origin import LEDGER, PROFILES, RESULTS
from gdnbench.verbs import options


def explain(
    ctx: typer.Context,
    kernels: options.KernelArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: Annotated[str, typer.Option(help="auto, or a model (h200, b200), which need not be here.")] = "auto",
    shape: Annotated[list[str] | None, typer.Option("--shape", metavar="B=N", help="One batch size.")] = None,
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A report of ncu's: .ncu-rep or .csv.")
    ] = None,
    strategies: Annotated[
        bool,
        typer.Option("--strategies", help="Instead of causes: usual ways to speed it up, judged."),
    ] = False,
    ledger: options.LedgerOption = LEDGER,
    profiles: options.ProfilesOption = PROFILES,
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Say what takes a kernel's time, and what to try next. Needs no GPU.

    At most three causes, ranked by the share of the time that each explains, with
    the evidence and an experiment to run. Reads the newest profile of `gdnbench ncu`,
    the last run, and what the compiler makes of the kernel: the most with all three.
    Of a kernel of several launches, each launch is explained by itself.

    --strategies walks a list of ways to make kernels faster, the first to try first:
    untried, tried, ruled out, or unknown where a profile is missing, each with its
    evidence: resources, counters, and entries of the ledger on the kernel.
    """
    options.check_mode(ctx, "strategies", ("ledger",), ())
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.select import resolve_op
    from gdnbench.diagnose.gather import Question, gather, rank
    from gdnbench.diagnose.strategies import judge_strategies
    from gdnbench.ledger.file import read_ledger
    from gdnbench.render.output import print_answer
    from gdnbench.report.explain import explained_answer, strategies_answer
    from gdnbench.verbs.progress import watch

    label = options.one_term(kernels, kernel, "gdnbench explain decode-v4")
    catalog = load_catalog()
    question = Question(label, resolve_op(catalog, op, [label]), options.sizes(shape), gpu, file, profiles, results)
    with watch(quiet=quiet) as observer:
        evidence = gather(catalog, question, observer)
    if strategies:
        judged = judge_strategies(evidence, read_ledger(ledger).values())
        print_answer(strategies_answer(evidence, judged, results, profiles), json=json)
        return
    of_launches = [rank(launch) for launch in evidence.launches]
    answer = explained_answer(evidence, rank(evidence), of_launches, results, profiles)
    print_answer(answer, json=json)
