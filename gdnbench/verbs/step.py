"""`gdnbench step`: what does an engine pay for one token, by every way of launching its layers?"""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from gdnbench.origin import RESULTS
from gdnbench.verbs import options


def step(
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    layers: Annotated[int, typer.Option(help="Layers of the chain, each with tensors of its own.")] = 36,
    between: Annotated[
        float, typer.Option(metavar="MIB", help="Read so much between two layers, standing for the weights.")
    ] = 0.0,
    path: Annotated[
        str, typer.Option(metavar="PATH,…", help="python, c-loop, graph, graph-pdl, persistent; all by default.")
    ] = "",
    l2: Annotated[
        str, typer.Option(metavar="STATE,…", help="What the L2 holds: resident, evicted, persisting; all by default.")
    ] = "",
    rounds: Annotated[int, typer.Option(help="Rounds in all, after burn-ins.")] = 21,
    samples: Annotated[int, typer.Option(help="Steps a round.")] = 16,
    processes: Annotated[int | None, typer.Option(help="Processes that share the rounds; 3 by default.")] = None,
    seed: options.SeedOption = None,
    label: options.LabelOption = "",
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Measure what a layer costs in a chain of them, by every way of launching it.

    An engine launches a kernel once a layer for each token. A chain of launches,
    one a layer, each on tensors of its own, is checked against the op's oracle and
    timed: from Python, from a C loop over the driver, as a CUDA graph, as a graph
    with programmatic dependent launch (of kernels whose source waits for it), and
    as one launch that goes over all layers (of kernels that have such a function).

    `--l2 resident` repeats the step, so that what fits stays; `evicted` overwrites
    the L2 before each step; `persisting` sets a part of it aside for the states, by
    access policy windows.
    """
    from gdnbench.analyse.exit_code import exit_code_of_statuses
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import MachineError, UsageError
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.step.measure import measure_plan
    from gdnbench.step.plan import (
        L2,
        StepPlan,
        StepSettings,
        Way,
        make_cases,
        parse_names,
        requested_cases,
    )
    from gdnbench.verbs.progress import watch
    from gdnbench.verbs.show_step import print_step

    names = options.terms(kernels, kernel)
    if not names:
        raise UsageError("no kernel is named", "as in `gdnbench step decode-v9`")
    settings = StepSettings.chosen(
        layers=layers, between_mib=between, rounds=rounds, samples=samples, processes=processes, seed=seed
    )
    ways, conditions = parse_names(Way, path, "--path"), parse_names(L2, l2, "--l2")
    catalog = load_catalog()
    subjects = requested_cases(catalog, op, options.joined(names), options.sizes(shape))
    card = select_gpu(gpu, list_gpus())
    if card is None:
        raise MachineError("a step is measured on a GPU, and there is none here", "see `gdnbench doctor`")
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    cases = make_cases(subjects, catalog.entries, ways, conditions, settings)
    of = catalog.entries[subjects[0].variant.kernel].op
    plan = StepPlan(catalog, of, card, cases, settings, command, label)
    with watch(quiet=quiet) as observer:
        finished = measure_plan(plan, results, observer)
    print_step(finished.path, json=json, csv=csv)
    if finished.interrupted:
        from gdnbench.errors import ExitCode

        raise typer.Exit(ExitCode.INTERRUPTED)
    timed = [status for status in finished.statuses if status.value != "unsupported"]
    raise typer.Exit(exit_code_of_statuses(timed, timed))
