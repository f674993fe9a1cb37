"""`gdnbench doctor`: is this machine fit to measure, and what are its verdicts worth?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gdnbench.errors import ExitCode
from gdnbench.origin import path_at_origin
from gdnbench.process.events import NoteMade
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, check_rows, command
from gdnbench.render.units import duration, number, percent
from gdnbench.verbs.options import QuietOption, ShapesOption, check_mode, run_of_all, sizes
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.calibrate.measure import CalibrationSubject
    from gdnbench.doctor.software import MachineCheck
    from gdnbench.store.calibration import Calibration, EqualRates, PlantedRates


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
    from gdnbench.process.events import StepChanged
    from gdnbench.verbs.progress import watch

    with watch(quiet=False) as observer:
        observer(StepChanged("loading torch, triton and cuda-bench"))
        checks = run_checks(results, gpu)
    fatal = any(check.is_fatal for check in checks)
    answer = Answer(
        text=lambda _: _text(checks),
        document=lambda: [asdict(check) for check in checks],
        next=command("doctor", *_gpu(gpu)) if fatal else run_of_all(*_gpu(gpu)),
    )
    print_answer(answer, json=json)
    if fatal:
        raise typer.Exit(ExitCode.ENVIRONMENT)


def _gpu(gpu: str) -> list[str]:
    return [] if gpu == "auto" else ["--gpu", gpu]


_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def _text(checks: Sequence[MachineCheck]) -> list[Block]:
    counts = Counter(check.level.value for check in checks)
    fatal = any(check.is_fatal for check in checks)
    what_follows = ": nothing can be measured until the failed checks are fixed" if fatal else ""
    summary = ", ".join(f"{counts[level]} {level}" for level in _STYLES)
    return [checks_table(checks), "", f"{summary}{what_follows}"]


def checks_table(checks: Sequence[MachineCheck]) -> Table[Any]:
    """Makes a row per check: name, level and finding; a remedy has a row of its own."""
    return check_rows(
        (check.name, Text(check.level, style=_STYLES[check.level]), check.finding, check.remedy) for check in checks
    )


def _calibrate(params: Mapping[str, Any]) -> ExitCode:
    """Calibrates, by the verb's parameters; gives the exit code."""
    from gdnbench.analyse.exit_code import exit_code_of_statuses
    from gdnbench.calibrate.measure import calibrate, choose_subject
    from gdnbench.errors import MachineError
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.verbs.progress import watch

    card = select_gpu(params["gpu"], list_gpus())
    if card is None:
        raise MachineError("a calibration needs a GPU, and there is none here", "see `gdnbench doctor`")
    numbers = {name: params[name] for name in ("runs", "processes", "rounds")}
    subject = choose_subject(card, axes=sizes(params["shape"]), **numbers)
    with watch(quiet=params["quiet"]) as observer:
        observer(NoteMade(_plan_line(subject)))
        outcome = calibrate(subject, Path(params["results"]), observer)
    if outcome.calibration:
        print_answer(_calibration(outcome.calibration, params["gpu"]), json=params["json"])
    if outcome.interrupted:
        return ExitCode.INTERRUPTED
    statuses = [row.status for row in outcome.rows]
    return exit_code_of_statuses(statuses, statuses)


def _plan_line(subject: CalibrationSubject) -> str:
    from gdnbench.calibrate.measure import EQUAL, TARGETS

    settings, workloads = subject.settings, ", ".join(map(str, subject.workloads))
    return (
        f"a pilot and {plural(subject.runs, 'run')} at {workloads}: "
        f"{EQUAL} equal kernels and {len(TARGETS)} slower ones, "
        f"{plural(settings.rounds, 'round')} in {plural(settings.processes, 'process', 'processes')}; "
        f"at most {duration(subject.longest_s)}, after all kernels are checked"
    )


def _calibration(calibration: Calibration, gpu: str) -> Answer:
    total = calibration.all_equal
    return Answer(
        text=lambda _: _calibration_text(calibration),
        document=lambda: {
            **asdict(calibration),
            "all_equal": asdict(total),
            "false_claims": asdict(total.false_claims),
            "coverage": asdict(total.coverage),
            "smallest_found": calibration.smallest_found,
        },
        next=run_of_all(*_gpu(gpu)),
    )


_EQUAL: list[Column[EqualRates]] = [
    Column("", lambda rates: rates.workload, "workload", fold=True),
    Column("", lambda rates: rates.comparisons, "compared", right=True),
    Column("", lambda rates: f"{rates.claims} ({percent(rates.false_claims.estimate)})", "false claims", right=True),
    Column("", lambda rates: f"{rates.false_claims.high:.0%}", "at most", right=True),
    Column("", lambda rates: number(rates.rms_z, ".2f"), "rms z", right=True),
    Column(
        "",
        lambda rates: f"{rates.coverage.estimate:.0%} ({rates.coverage.low:.0%} to {rates.coverage.high:.0%})",
        "covered",
        right=True,
    ),
]

_PLANTED: list[Column[PlantedRates]] = [
    Column("", lambda rates: rates.workload, "workload", fold=True),
    Column("", lambda rates: f"{rates.target:.1%}", "wanted", right=True),
    Column("", lambda rates: rates.chain, "additions", right=True),
    Column("", lambda rates: f"{rates.slowdown:.2%}", "slower by", right=True),
    Column("", lambda rates: f"{rates.found} of {rates.comparisons}", "found", right=True),
    Column("", lambda rates: f"{rates.apart} of {rates.comparisons}", "apart", right=True),
    Column(
        "",
        lambda rates: None if rates.covered is None else f"{rates.covered} of {rates.comparisons}",
        "covered",
        right=True,
    ),
]


def _calibration_text(calibration: Calibration) -> list[Block]:
    from gdnbench.store.calibration import NAME, in_words

    head = Text(f"calibration of the {calibration.gpu_name} in {calibration.host}", style="bold")
    runs = f"{plural(calibration.runs, 'run')} of {plural(calibration.rounds, 'round')}"
    head.append(f": {runs} in {plural(calibration.processes, 'process', 'processes')}", style="not bold")
    if not calibration.is_whole:
        head.append(f"  (partial: {calibration.asked} runs were requested)", style="bold yellow")
    several = [calibration.all_equal] if len(calibration.equal) > 1 else []
    workloads = list(dict.fromkeys(each.workload for each in calibration.planted))
    planted = sorted(calibration.planted, key=lambda rates: (workloads.index(rates.workload), rates.target))
    legend = (
        "false claims: called FASTER or SLOWER; at most: the upper end of the share's 95 % interval.\n"
        "rms z: of differences in standard errors; 1 where runs know their noise.\n"
        f"covered: 1 is in the interval, before Holm's correction; it promises {calibration.confidence:.0%}.\n"
        f"found: called SLOWER, beyond {calibration.margin:.2%}; apart: the printed interval leaves out 1.\n"
        "covered, of a slowdown: the run agrees with the others, within the interval of their difference."
    )
    return [
        head,
        "",
        Table(_EQUAL, [*calibration.equal, *several], "equal kernels"),
        "",
        Table(_PLANTED, planted, "planted slowdowns"),
        "",
        Note(legend, "legend"),
        Note(f"stored in {path_at_origin(Path(calibration.folder))}/{NAME}", "legend", whole=True),
        f"calibrated {in_words(calibration.summary)}",
    ]
