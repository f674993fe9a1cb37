"""`gdnbench sweep`: which params are best?"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gdnbench.origin import RESULTS
from gdnbench.verbs import options


def sweep(
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME[=V,V…]", help="A param and the values to try; repeatable."),
    ] = None,
    op: options.OpOrDecodeOption = "",
    library: options.LibraryOption = False,
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    profile: options.ProfileOption = None,
    inputs: options.InputsOption = None,
    budget: options.BudgetOption = "60s",
    samples: Annotated[int, typer.Option(help="Samples per round.")] = 64,
    margin: options.MarginOption = 0.005,
    baseline: options.BaselineOption = "",
    seed: options.SeedOption = None,
    step_limit: options.StepLimitOption = 30.0,
    label: Annotated[str, typer.Option(help="Becomes part of the sweep's name.")] = "sweep",
    emit_dispatch: Annotated[
        bool, typer.Option("--emit-dispatch", help="Print the best of each workload as a declaration.")
    ] = False,
    dry_run: options.DryRunOption = False,
    yes: options.YesOption = False,
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Race every combination of params and say which are best.

    A coarse pass over all points, then ever more rounds of those that may still be
    the best, until they separate, tie within the margin, or the budget ends.
    The answer is a plateau: the points that tie, and the simplest of them. A sweep
    that is stopped has kept its rounds: `gdnbench run --resume` goes on with them.
    """
    from gdnbench.analyse.exit_code import exit_code_of_sweep, refuse_nothing_measured
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.request import device_of
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.measure.plan import choose_sweep_settings, foresee, make_plan, make_sweep_request, refuse_impossible
    from gdnbench.measure.start import begin_session
    from gdnbench.verbs.progress import watch
    from gdnbench.verbs.show_sweep import print_sweep

    catalog = load_catalog(library=library)
    chosen = select_gpu(gpu, list_gpus())
    settings = choose_sweep_settings(
        device_of(chosen), budget=budget, samples=samples, seed=seed, margin=margin, step_limit_s=step_limit
    )
    names = options.terms(kernels, kernel)
    request = make_sweep_request(
        catalog,
        options.op_meant(catalog, op, [*names, baseline], quiet=quiet),
        names,
        param or [],
        axes=options.sizes(shape),
        settings=settings,
        gpu=chosen,
        baseline=baseline,
        label=label,
        profiles=options.joined(profile),
        inputs=inputs,
    )
    plan = make_plan(catalog, request, chosen)
    outlook = foresee(catalog, plan)
    if dry_run:
        options.print_outlook(outlook, sys.argv[1:], json=json, csv=csv)
        return
    refuse_impossible(catalog, plan)
    options.confirm_builds(outlook, yes=yes)
    with watch(quiet=quiet) as observer:
        finished = begin_session(catalog, plan, results, observer).run()
    print_sweep(finished.path, json=json, csv=csv, dispatch=emit_dispatch)
    rows = finished.analysis.measurements
    code = exit_code_of_sweep(rows, finished.info.swept, interrupted=finished.interrupted)
    refuse_nothing_measured(code, rows)
    raise typer.Exit(code)
