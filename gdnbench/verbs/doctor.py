"""`gdnbench doctor`: is this machine fit to measure, and what are its verdicts worth?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gdnbench.errors import ExitCode
from gdnbench.origin import PROFILES, path_at_origin
from gdnbench.process.events import NoteMade
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, check_rows, command
from gdnbench.render.units import duration, number, percent, traffic
from gdnbench.verbs.options import GpuOption, ProfilesOption, QuietOption, ShapesOption, check_mode, run_of_all, sizes
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.calibrate.measure import CalibrationSubject
    from gdnbench.doctor.checks import MachineCheck
    from gdnbench.machine.gpus import GpuSpec
    from gdnbench.model.gpu import Gpu
    from gdnbench.store.calibration import Calibration, EqualRates, PlantedRates
    from gdnbench.store.latencies import Cost, Latencies, Peak, ReadRate


def doctor(
    ctx: typer.Context,
    gpu: GpuOption = "auto",
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
    latency: Annotated[
        bool, typer.Option("--latency", help="Measure instead what trips to memory, barriers and bytes cost here.")
    ] = False,
    profiles: ProfilesOption = PROFILES,
    stored: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="With --latency: print these stored costs again.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: findings, the calibration, or the costs.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="With --latency: print CSV.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Check whether this machine is fit to measure, and say how to fix what is not.

    Checks Python, torch, Triton, NVRTC, NVBench, compilers, the driver, every GPU
    (clocks, temperature, other processes), its calibration, and whether results can
    be written. Changes nothing. Exits with 5 if nothing can be measured.

    --calibrate measures how often this machine's verdicts are right: by runs of one
    decode kernel under other names, and with a few dependent additions planted in it,
    at B=1, 8 and 64 unless --shape says otherwise. `doctor` and the runs that follow
    name the last calibration of their GPU. Stopped, it keeps the runs that it has.

    --latency measures what the GPU is: trips to shared memory, L1, L2 and DRAM;
    barriers of blocks, clusters and the grid; launches; bandwidth by width of access
    and by SMs in use; and operations at the clock that the SMs had meanwhile.
    `gdnbench explain` quotes it from profiles/latency.
    """
    check_mode(ctx, "calibrate", ("shape", "runs", "processes", "rounds"))
    check_mode(ctx, "latency", ("profiles", "stored", "csv"), ("calibrate",))
    if calibrate:
        raise typer.Exit(_calibrate(ctx.params))
    if latency:
        from gdnbench.store.latencies import read_latencies

        answer = _latencies(read_latencies(stored) if stored else _measure_latencies(ctx.params))
        print_answer(answer, json=json, csv=csv)
        return
    from gdnbench.doctor.checks import run_checks
    from gdnbench.process.events import StepChanged
    from gdnbench.verbs.progress import watch

    with watch(quiet=quiet) as observer:
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
    rows = ((each.name, Text(each.level, style=_STYLES[each.level]), each.finding, each.remedy) for each in checks)
    return [check_rows(rows), "", f"{summary}{what_follows}"]


def _calibrate(params: Mapping[str, Any]) -> ExitCode:
    """Calibrates, by the verb's parameters; gives the exit code."""
    from gdnbench.analyse.exit_code import exit_code_of_statuses
    from gdnbench.calibrate.measure import calibrate, choose_subject
    from gdnbench.verbs.progress import watch

    card = _card(params["gpu"], "a calibration")
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


def _card(gpu: str, what: str) -> Gpu:
    from gdnbench.errors import MachineError
    from gdnbench.machine.gpus import list_gpus, select_gpu

    card = select_gpu(gpu, list_gpus())
    if card is None:
        raise MachineError(f"{what} needs a GPU, and there is none here", "see `gdnbench doctor`")
    return card


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


def _measure_latencies(params: Mapping[str, Any]) -> Latencies:
    """Measures what a GPU costs, and stores it."""
    from gdnbench.calibrate.latency import measure_latencies
    from gdnbench.store.latencies import latency_path, write_latencies
    from gdnbench.verbs.progress import watch

    card = _card(params["gpu"], "--latency")
    with watch(quiet=params["quiet"]) as observer:
        found = measure_latencies(card, observer)
        path = latency_path(Path(params["profiles"]), found.gpu, found.timestamp)
        write_latencies(path, found)
        observer(NoteMade(f"stored in {path_at_origin(path)}"))
    return found


def _number(name: str, heading: str = "", form: str = ",.0f", *, per: float = 1.0, drop: int = 0) -> Column[Any]:
    """A column of a field, shown as a multiple of `per`; empty where it is None."""
    value = attrgetter(name)

    def show(row: Any) -> str:
        return "" if value(row) is None else f"{value(row) / per:{form}}"

    return Column(name, value, heading, show, right=True, drop=drop)


_MHZ = _number("sm_mhz", "MHz")
_COSTS: list[Column[Cost]] = [
    Column("group", lambda cost: cost.group),
    Column("what", lambda cost: cost.what, "what", fold=True),
    _number("ns", "ns", ",.1f"),
    _number("least_ns", "least", ",.1f", drop=2),
    _number("most_ns", "most", ",.1f", drop=2),
    _number("cycles", "cycles"),
    replace(_MHZ, drop=1),
]


def _rate_columns(spec: GpuSpec | None) -> list[Column[ReadRate]]:
    rated = 1e9 * spec.bandwidth_gbs if spec else None
    return [
        _number("lane_bytes", "bytes a lane"),
        _number("sms", "SMs"),
        _number("bytes_per_s", "GB/s", per=1e9),
        Column("", lambda rate: f"{rate.bytes_per_s / rate.sms / 1e9:,.1f}", "of each SM", right=True),
        Column("", lambda rate: _share(rate.bytes_per_s, rated), "of rated", right=True),
        *map(_number, ("least_bytes_per_s", "most_bytes_per_s")),
        _MHZ,
    ]


def _peak_columns(spec: GpuSpec | None) -> list[Column[Peak]]:
    def rated(peak: Peak) -> float | None:
        if spec is None or peak.precision not in spec.peak_tflops:
            return None
        return 1e12 * spec.most_tflops(peak.precision) * peak.sm_mhz / spec.boost_mhz

    def show(peak: Peak) -> str:
        return f"{rate / 1e12:.3g}" if (rate := rated(peak)) else ""

    return [
        Column("precision", lambda peak: peak.precision, "precision"),
        _number("flops_per_s", "TFLOP/s", ".3g", per=1e12),
        *map(_number, ("least_flops_per_s", "most_flops_per_s")),
        _MHZ,
        Column("rated_flops_per_s", rated, "rated at it", show, right=True),
        Column("", lambda peak: _share(peak.flops_per_s, rated(peak)), "share", right=True),
    ]


_TITLES = {"trip": "one trip to", "barrier": "one barrier of a", "launch": "launches, found in the queue"}


def _share(value: float, rated: float | None) -> str:
    return percent(value / rated) if rated else ""


def _latencies(found: Latencies) -> Answer:
    from gdnbench.machine.gpus import spec_of

    spec = spec_of(found.gpu)
    costs = [
        Table(_COSTS, [cost for cost in found.costs if cost.group == group], title) for group, title in _TITLES.items()
    ]
    rates = Table(_rate_columns(spec), found.rates, "reading DRAM, one block of 1,024 threads on each SM")
    peaks = Table(
        _peak_columns(spec), found.peaks, "operations of all SMs, and what is rated at the clock that they had"
    )
    return Answer(
        text=lambda _: _latency_text(found, [*costs, rates, peaks]),
        document=lambda: asdict(found),
        records=lambda: _latency_records([*costs, rates, peaks]),
        next=command("explain", "decode-v9"),
    )


def _latency_text(found: Latencies, tables: Sequence[Table[Any]]) -> list[Block]:
    head = Text(f"the {found.gpu_name} in {found.host}", style="bold")
    head.append(f": {found.sms} SMs, L2 of {traffic(found.l2_bytes)}, {found.timestamp[:10]}", style="not bold")
    legend = (
        "ns and cycles: the median of 5 loops; least and most are theirs.\n"
        "A trip is a load whose address the one before has brought.\n"
        f"cold translation: each load is of another of {found.pages:,} pages of 2 MiB."
    )
    missing = [Note(f"{each.what}: not measured: {each.why}", "caution") for each in found.unmeasured]
    return [
        head,
        *(block for table in tables if table.rows for block in ("", table)),
        "",
        *missing,
        Note(legend, "legend"),
    ]


def _latency_records(tables: Sequence[Table[Any]]) -> list[dict[str, object]]:
    """Rows of all tables with the columns of each, None where a row has no such value."""
    group = {"lane_bytes": "read", "precision": "peak"}
    rows = [record for table in tables for record in table.records("csv")]
    records = [{"group": group.get(next(iter(record))), **record} for record in rows]
    names = dict.fromkeys(name for record in records for name in record)
    return [{name: record.get(name) for name in names} for record in records]
