"""`gdnbench run`: how fast is each, and which is faster?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gdnbench.errors import UsageError
from gdnbench.origin import RESULTS
from gdnbench.verbs import options
from gdnbench.verbs.base import VIEW_OPTIONS
from gdnbench.verbs.options import complete_stopped

if TYPE_CHECKING:
    from gdnbench.errors import ExitCode
    from gdnbench.functions.ask import FunctionsMade
    from gdnbench.measure.run import Finished
    from gdnbench.model.gpu import Gpu

_BESIDE_RESUME = frozenset({"resume", "results", "inputs", "json", "csv", "quiet", "yes", *VIEW_OPTIONS})


def run(
    ctx: typer.Context,
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOrDecodeOption = "",
    library: options.LibraryOption = False,
    gpu: options.CardsOption = "auto",
    shape: options.ShapesOption = None,
    suite: options.SuiteOption = "",
    baseline: options.BaselineOption = "",
    rounds: options.RoundsOption = None,
    samples: Annotated[int | None, typer.Option(help="Samples per round; by default 64, on a GPU 32.")] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Processes that share the rounds; by default 1, on a GPU 3, two for what is close."),
    ] = None,
    margin: options.MarginOption = 0.005,
    seed: options.SeedOption = None,
    step_limit: options.StepLimitOption = 30.0,
    timer: Annotated[
        list[str] | None,
        typer.Option(metavar="TIMER,…", help="nvbench, and also cupti (the default), graph, events, or none."),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="NVBench alone: no rotation, scrubbing, dithering.")] = False,
    profile: options.ProfileOption = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|TENSORS",
            readable=False,
            help="A model's inputs, FILE.safetensors or a folder of them; of functions as in x=bf16[M=64,K=512].",
            show_default=False,
        ),
    ] = None,
    output: Annotated[str, typer.Option(metavar="TENSORS", help="What a lone .cu writes that others must, too.")] = "",
    grid: Annotated[list[str] | None, typer.Option(metavar="SIZES", help="Blocks of a lone .cu: 'M,(K+7)//8'.")] = None,
    block: Annotated[list[str] | None, typer.Option(metavar="SIZE", help="Threads per block of a lone .cu.")] = None,
    quick: options.QuickOption = False,
    label: options.LabelOption = "",
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

    `FILE.py::NAME` is a function of tensors, and `FILE.cu::NAME` a kernel in a lone
    file: `--inputs` says what they take, and they are compared with that which
    `--against` names, in times and in what they return.

    Every kernel is first checked against a float64 oracle; one that fails gets a
    status and no time. The healthy ones are timed cold by NVBench in shuffled
    rounds, over several processes and fresh placements in memory, and again by
    CUPTI, without their launch. Without a GPU the torch kernels are timed on the
    CPU, and GPU kernels beside them are compiled for Hopper and Blackwell.

    `--gpu all` measures on every GPU at once, each in a run of its own, and joins
    them into one table whose intervals hold what cards differ by; `gdnbench show`
    with these runs prints it again.
    """
    from gdnbench.analyse.exit_code import exit_code_of_sweep
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.request import device_of, make_request
    from gdnbench.machine.gpus import list_gpus, select_cards, select_gpu
    from gdnbench.measure.plan import foresee, make_plan, refuse_impossible
    from gdnbench.measure.start import begin_session, resume_session
    from gdnbench.store.settings import choose_settings
    from gdnbench.verbs.progress import watch
    from gdnbench.verbs.sweep import print_sweep

    catalog = load_catalog(library=library)
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
        if suite or len(cards) > 1:  # which are read as a whole: every case in every process
            settings = replace(settings, until_clear=False)
        names = options.terms(kernels, kernel)
        if made := _make_op(ctx, names, found):
            op, names, baseline = made.op, list(made.kernels), made.reference
            catalog, inputs = load_catalog([Path(made.root)]), None
        request = make_request(
            catalog,
            options.op_meant(catalog, op, [*names, baseline], quiet=quiet),
            options.joined(names) or "all",
            axes=options.sizes(shape),
            baseline=baseline,
            label=label,
            settings=settings,
            suite=suite,
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
    raise typer.Exit(print_finished(finished, are_clocks_asked=bool(timer), json=json, csv=csv))


def print_finished(finished: Finished, *, are_clocks_asked: bool, json: bool, csv: bool) -> ExitCode:
    """Prints a run and returns its exit code; raises MachineError if nothing requested could run."""
    from gdnbench.analyse.exit_code import exit_code_of_rows, refuse_nothing_measured
    from gdnbench.verbs.run_tables import print_run

    print_run(finished.path, json=json, csv=csv)
    # A clock that was not requested, and cannot be read here, is not a failure of the run: its table says so.
    analysis, named = finished.analysis, finished.info.baseline_named
    rows = analysis.rows if are_clocks_asked else analysis.measurements
    code = exit_code_of_rows(rows, interrupted=finished.interrupted, baseline_named=named)
    refuse_nothing_measured(code, rows, baseline_named=named)
    return code


def _make_op(ctx: typer.Context, names: Sequence[str], gpu: Gpu | None) -> FunctionsMade | None:
    """Makes an op of the functions that were typed, None where there is none; raises as `make_functions_op`."""
    from gdnbench.functions.ask import FunctionsRequest, make_functions_op
    from gdnbench.functions.reference import names_functions

    given = ctx.params
    if not names_functions([*names, given["baseline"]]):
        _refuse(ctx, ("output", "grid", "block"), "is of a lone file's kernel, as in mine.cu::rms_norm")
        return None
    _refuse(ctx, ("op", "suite", "profile"), "is of kernels of an op, and functions are named")
    typed = FunctionsRequest(
        functions=tuple(filter(None, options.joined(names).split(","))),
        against=given["baseline"],
        inputs=str(given["inputs"] or ""),
        shapes=options.sizes(given["shape"]),
        output=given["output"],
        grid=tuple(given["grid"] or ()),
        block=tuple(given["block"] or ()),
    )
    return make_functions_op(typed, gpu, given["step_limit"])


def _refuse(ctx: typer.Context, names: Sequence[str], why: str) -> None:
    if given := next((name for name in names if ctx.params[name]), ""):
        raise UsageError(f"--{given} {why}", f"leave --{given} out")
