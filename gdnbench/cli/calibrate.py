"""`gdnbench calibrate`: what are verdicts on this machine worth?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import GpuOption, JsonOption, QuietOption, ResultsOption, ShapesOption, sizes
from gdnbench.places import RESULTS


def calibrate(
    gpu: GpuOption = "auto",
    shape: ShapesOption = None,
    runs: Annotated[int, typer.Option(help="Runs, of a fresh seed and fresh processes each.")] = 6,
    processes: Annotated[
        int | None, typer.Option(help="Processes that share the rounds of a run; 3 by default.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of a run, after burn-ins; 42 by default.")] = None,
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure how often this machine's verdicts are right.

    Runs as `gdnbench run` makes them, at B=1, 8 and 64 unless --shape says
    otherwise, of kernels whose differences are known: one decode kernel under
    other names, and the same with a few dependent additions planted in it. Says
    how often equal kernels were called different, whether intervals hold what they
    promise, and how small a slowdown is found. `doctor` and the runs that follow
    name the last calibration of their GPU. Stopped, it keeps the runs that it has.
    """
    from gdnbench.calibrate.measure import calibrate as measure
    from gdnbench.calibrate.plan import choose_subject
    from gdnbench.cli.progress import watch
    from gdnbench.errors import ExitCode, MachineError
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.measuring.exit_code import exit_code_of_statuses
    from gdnbench.report.calibration import plan_line, print_calibration

    found = select_gpu(gpu, list_gpus())
    if found is None:
        raise MachineError("a calibration needs a GPU, and there is none here", "see `gdnbench doctor`")
    subject = choose_subject(found, axes=sizes(shape), runs=runs, processes=processes, rounds=rounds)
    with watch(quiet=quiet) as observer:
        observer.note(plan_line(subject))
        outcome = measure(subject, results, observer)
    if outcome.calibration:
        print_calibration(outcome.calibration, gpu, json=json)
    if outcome.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    statuses = [row.status for row in outcome.rows]
    raise typer.Exit(exit_code_of_statuses(statuses, statuses))
