"""`gdnbench run`: how fast is each, and which is faster?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import RESULTS, Batches, Csv, Gpu, Heads, Json, Op, Quiet, Results


def run(
    kernel: Annotated[
        str, typer.Option("--kernel", "-k", help="all, or names and globs: decode-v4,decode-v1*,decode-triton:BV=16")
    ] = "all",
    op: Op = "decode",
    gpu: Gpu = "auto",
    shape: Batches = "",
    heads: Heads = "",
    baseline: Annotated[str, typer.Option(help="What to compare with; the op's baseline by default.")] = "",
    rounds: Annotated[int | None, typer.Option(help="Rounds after the burn-in; 41 by default.")] = None,
    samples: Annotated[int | None, typer.Option(help="Samples per round; 100 by default.")] = None,
    margin: Annotated[float, typer.Option(help="Relative difference that counts as none.")] = 0.005,
    seed: Annotated[int | None, typer.Option(help="Of inputs and order; fresh by default.")] = None,
    step_limit: Annotated[float, typer.Option(help="Seconds that one step of one kernel may take.")] = 30.0,
    timer: Annotated[str, typer.Option(help="nvbench, and beside it cupti, graph or both.")] = "nvbench",
    plain: Annotated[bool, typer.Option("--plain", help="NVBench alone: no rotation, scrubbing, dithering.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="7 rounds of 50 samples: a first look.")] = False,
    label: Annotated[str, typer.Option(help="Becomes part of the run's name.")] = "",
    resume: Annotated[str, typer.Option(metavar="RUN", help="Finish a run that was stopped.")] = "",
    results: Results = RESULTS,
    json: Json = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Verify and measure kernels, interleaved, and compare them with the baseline.

    Every kernel is first checked against a float64 oracle; one that fails gets a
    status and no time. The healthy ones are timed cold by NVBench in shuffled
    rounds. Without a GPU the torch kernels are timed on the CPU, and every GPU
    kernel is compiled for Hopper and Blackwell. `--timer nvbench,cupti,graph`
    measures again by two more clocks, and tells the launch from the kernel.
    """
    from gdnbench.bench.exitcode import exit_code_of
    from gdnbench.bench.opening import begin_session, resume_session
    from gdnbench.bench.request import choose_settings, make_request, parse_clocks
    from gdnbench.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.machine import list_gpus, select_gpu
    from gdnbench.report.run_output import print_run

    catalog = load_catalog()
    with watch(quiet=quiet) as observer:
        if resume:
            session = resume_session(catalog, results, resume, observer)
        else:
            settings = choose_settings(
                quick=quick,
                rounds=rounds,
                samples=samples,
                seed=seed,
                margin=margin,
                step_limit_s=step_limit,
                plain=plain,
                clocks=parse_clocks(timer),
            )
            request = make_request(
                catalog, op, kernel, axes=shape, heads=heads, baseline=baseline, label=label, settings=settings
            )
            session = begin_session(catalog, request, select_gpu(gpu, list_gpus()), results, observer)
        finished = session.run()
    print_run(finished.path, json=json, csv=csv)
    raise typer.Exit(exit_code_of(finished.analysis.rows, interrupted=finished.interrupted))
