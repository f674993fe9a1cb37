"""`gdnbench run`: how fast is each, and which is faster?"""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import typer

from gdnbench.origin import RESULTS
from gdnbench.verbs import options
from gdnbench.verbs.base import VIEW_OPTIONS
from gdnbench.verbs.complete import complete_stopped

_BESIDE_RESUME = frozenset({"resume", "results", "inputs", "json", "csv", "quiet", "yes", *VIEW_OPTIONS})


def run(
    ctx: typer.Context,
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOrDecodeOption = "",
    gpu: options.CardsOption = "auto",
    shape: options.ShapesOption = None,
    suite: options.SuiteOption = "",
    part: options.PartOption = "",
    baseline: options.BaselineOption = "",
    rounds: Annotated[int | None, typer.Option(help="Rounds in all, after burn-ins; 42 by default.")] = None,
    samples: Annotated[int | None, typer.Option(help="Samples per round; 64 by default.")] = None,
    processes: Annotated[
        int | None, typer.Option(help="Processes that share the rounds; on a GPU 3 by default, on a CPU 1.")
    ] = None,
    margin: options.MarginOption = 0.005,
    seed: Annotated[int | None, typer.Option(help="Of inputs and order; fresh by default.")] = None,
    step_limit: options.StepLimitOption = 30.0,
    timer: Annotated[
        list[str] | None,
        typer.Option(metavar="TIMER,…", help="nvbench, and beside it cupti (the default), graph, both or none."),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="NVBench alone: no rotation, scrubbing, dithering.")] = False,
    profile: options.ProfileOption = None,
    inputs: options.InputsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="7 rounds of 32 samples, by NVBench: a first look.")] = False,
    label: Annotated[str, typer.Option(help="Becomes part of the run's name.")] = "",
    resume: Annotated[
        str, typer.Option(metavar="RUN", help="Finish a run that was stopped.", autocompletion=complete_stopped)
    ] = "",
    dry_run: options.DryRunOption = False,
    yes: options.YesOption = False,
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Verify and measure kernels, interleaved, and compare them with the baseline.

    Every kernel is first checked against a float64 oracle; one that fails gets a
    status and no time. The healthy ones are timed cold by NVBench in shuffled
    rounds, over several processes and fresh placements in memory, and again by
    CUPTI, which tells the kernel's own time from its launch. Without a GPU the
    torch kernels are timed on the CPU, and GPU kernels beside them are compiled
    for Hopper and Blackwell. Where nothing that is asked for can run here, nothing
    is begun.

    `--gpu all` measures on every GPU at once, each in a run of its own, and joins
    them into one table whose intervals hold what cards differ by; `gdnbench show`
    with these runs prints it again.
    """
    from gdnbench.analyse.exit_code import exit_code_of_rows, exit_code_of_sweep, refuse_nothing_measured
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.request import device_of, make_request
    from gdnbench.machine.gpus import list_gpus, select_cards, select_gpu
    from gdnbench.measure.plan import foresee, make_plan, refuse_impossible
    from gdnbench.measure.start import begin_session, resume_session
    from gdnbench.model.case import parse_part
    from gdnbench.store.settings import choose_settings
    from gdnbench.verbs.progress import watch
    from gdnbench.verbs.run_tables import print_run
    from gdnbench.verbs.show_sweep import print_sweep

    catalog = load_catalog()
    if resume:
        options.refuse_beside(ctx, "resume", _BESIDE_RESUME, "the run goes on as it began")
        open_session = partial(resume_session, catalog, results, resume, inputs=inputs)
    else:
        gpus = list_gpus()
        cards = select_cards(gpu, gpus)
        found = cards[0] if cards else select_gpu(gpu, gpus)
        settings = choose_settings(
            device_of(found),
            quick=quick,
            rounds=rounds,
            samples=samples,
            processes=processes,
            seed=seed,
            margin=margin,
            step_limit_s=step_limit,
            plain=plain,
            timers=options.joined(timer),
        )
        names = options.terms(kernels, kernel)
        request = make_request(
            catalog,
            options.op_meant(catalog, op, [*names, baseline], quiet=quiet),
            options.joined(names) or "all",
            axes=options.sizes(shape),
            baseline=baseline,
            label=label,
            settings=settings,
            suite=suite,
            part=parse_part(part),
            profiles=options.joined(profile),
            inputs=inputs,
        )
        plan = make_plan(catalog, request, found)
        outlook = foresee(catalog, plan)
        if dry_run:
            options.print_outlook(outlook, sys.argv[1:], json=json, csv=csv, cards=max(1, len(cards)))
            return
        refuse_impossible(catalog, plan)
        options.confirm_builds(outlook, yes=yes)
        if len(cards) > 1:
            from gdnbench.verbs.parallel import run_cards

            raise typer.Exit(run_cards(catalog, plan, cards, results, json=json, csv=csv, quiet=quiet))
        open_session = partial(begin_session, catalog, plan, results)
    with watch(quiet=quiet) as observer:
        finished = open_session(observer).run()
    if finished.info.swept:
        print_sweep(finished.path, json=json, csv=csv, dispatch=False)
        rows = finished.analysis.measurements
        raise typer.Exit(exit_code_of_sweep(rows, finished.info.swept, interrupted=finished.interrupted))
    print_run(finished.path, json=json, csv=csv)
    # A clock that nobody asked for, and that cannot be read here, is no failure of the run: its table says so.
    analysis, named = finished.analysis, finished.info.baseline_named
    rows = analysis.rows if timer else analysis.measurements
    code = exit_code_of_rows(rows, interrupted=finished.interrupted, baseline_named=named)
    refuse_nothing_measured(code, rows, baseline_named=named)
    raise typer.Exit(code)
