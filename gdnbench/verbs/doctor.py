"""`gdnbench doctor`: is this machine fit to measure, and what are its verdicts worth?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gdnbench.errors import ExitCode
from gdnbench.verbs.options import QuietOption, ShapesOption, check_mode, sizes


def doctor(
    ctx: typer.Context,
    gpu: Annotated[str, typer.Option(help="auto, cpu, an index, a model (h200, b200) or a GPU-… UUID.")] = "auto",
    results: Annotated[Path, typer.Option("--out", help="The folder that runs are to be written to.")] = Path(
        "results"
    ),
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure instead how often verdicts are right here.")
    ] = False,
    shape: ShapesOption = None,
    runs: Annotated[int, typer.Option(help="With --calibrate: runs, of a fresh seed and fresh processes each.")] = 6,
    processes: Annotated[
        int | None, typer.Option(help="With --calibrate: processes that share the rounds of a run; 3 by default.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="With --calibrate: rounds of a run, after burn-ins; 42 by default.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: a list of findings, or the calibration.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Check whether this machine is fit to measure, and say how to fix what is not.

    Checks Python, files that shadow modules, torch, Triton, NVRTC, NVBench, the driver, every GPU
    (clocks, temperature, other processes), the profilers and their
    permissions, and room for results. Changes nothing. Exits with 5 if
    nothing can be measured.

    --calibrate measures how often this machine's verdicts are right: runs as
    `gdnbench run` makes them, at B=1, 8 and 64 unless --shape says otherwise, of
    kernels whose differences are known: one decode kernel under other names, and the
    same with a few dependent additions planted in it. Says how often equal kernels
    were called different, whether intervals hold what they promise, and how small a
    slowdown is found. `doctor` and the runs that follow name the last calibration of
    their GPU. Stopped, it keeps the runs that it has.
    """
    check_mode(ctx, "calibrate", ("shape", "runs", "processes", "rounds", "quiet"))
    if calibrate:
        raise typer.Exit(_calibrate(ctx.params))
    from gdnbench.doctor.checks import run_checks
    from gdnbench.report.machine import print_checks
    from gdnbench.verbs.progress import waiting

    with waiting("Loading torch, triton and cuda-bench…"):
        checks = run_checks(results, gpu)
    print_checks(checks, gpu, json=json)
    if any(check.is_fatal for check in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)


def _calibrate(params: Mapping[str, Any]) -> ExitCode:
    """Calibrates, by the verb's parameters; gives the exit code."""
    from gdnbench.calibrate.measure import calibrate, choose_subject
    from gdnbench.errors import MachineError
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.measure.exit_code import exit_code_of_statuses
    from gdnbench.report.machine import plan_line, print_calibration
    from gdnbench.verbs.progress import watch

    found = select_gpu(params["gpu"], list_gpus())
    if found is None:
        raise MachineError("a calibration needs a GPU, and there is none here", "see `gdnbench doctor`")
    numbers = {name: params[name] for name in ("runs", "processes", "rounds")}
    subject = choose_subject(found, axes=sizes(params["shape"]), **numbers)
    with watch(quiet=params["quiet"]) as observer:
        observer.note(plan_line(subject))
        outcome = calibrate(subject, params["results"], observer)
    if outcome.calibration:
        print_calibration(outcome.calibration, params["gpu"], json=params["json"])
    if outcome.interrupted:
        return ExitCode.INTERRUPTED
    statuses = [row.status for row in outcome.rows]
    return exit_code_of_statuses(statuses, statuses)
