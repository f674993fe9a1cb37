"""Measures a calibration, run after run, and the rates of right and wrong verdicts on known differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import scipy

from gdnbench.analyse.analysis import Analysis
from gdnbench.calibrate.plan import KERNEL, CalibrationSubject, Chains, chain_of, choose_chains, pilot_plan, run_plan
from gdnbench.machine.provenance import host_name, read_state
from gdnbench.measure.plan import Plan
from gdnbench.measure.run import Finished
from gdnbench.measure.start import begin_session
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.origin import CALIBRATIONS
from gdnbench.process.events import Observer, RaceStatus
from gdnbench.stats.interval import Variance, Verdict, add_variances, half_width_of, t_upper_tail
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.store.calibration import NAME, Calibration, EqualRates, PlantedRates, calibration_path, write_calibration

_LEAST_TAIL = 1e-300  # least p-value, of 37 standard errors


@dataclass(frozen=True)
class Compared:
    """A comparison of a run whose truth is known.

    Attributes:
        chain: number of planted additions; 0 for an equal kernel.
        target: the slowdown that they are for; 0 for an equal kernel.
        ratio: log(baseline / kernel), as the run judged it.
        high: upper end of the printed interval of baseline / kernel.
    """

    workload: Workload
    label: str
    chain: int
    target: float
    ratio: PairedLogRatio
    verdict: Verdict
    high: float


def comparisons_of(run: Analysis, chains: Chains) -> list[Compared]:
    """The comparisons of a run; cases without a time are left out."""
    return [
        Compared(
            workload=row.case.workload,
            label=row.case.label,
            chain=chain_of(row.case),
            target=chains[row.case.workload].get(chain_of(row.case), 0.0),
            ratio=run.ratios[row.case.id],
            verdict=Verdict(row.versus.verdict),
            high=row.versus.high,
        )
        for row in run.measurements
        if row.role is Role.KERNEL and row.case.variant.kernel == KERNEL and row.versus
    ]


def equal_rates(compared: Iterable[Compared], confidence: float) -> list[EqualRates]:
    """Rates for kernels that are equal, by workload."""
    found: dict[Workload, list[Compared]] = {}
    for each in compared:
        if not each.chain:
            found.setdefault(each.workload, []).append(each)
    return [
        EqualRates(
            workload=str(workload),
            names=len({each.label for each in equal}),
            comparisons=len(equal),
            claims=sum(each.verdict in {Verdict.FASTER, Verdict.SLOWER} for each in equal),
            covered=sum(not each.ratio.is_apart(confidence) for each in equal),
            rms_z=math.sqrt(sum(normal_deviate(each.ratio) ** 2 for each in equal) / len(equal)),
        )
        for workload, equal in found.items()
    ]


def planted_rates(compared: Iterable[Compared], confidence: float) -> list[PlantedRates]:
    """Rates for kernels that were slowed down, by workload and slowdown."""
    found: dict[tuple[Workload, int], list[Compared]] = {}
    for each in compared:
        if each.chain:
            found.setdefault((each.workload, each.chain), []).append(each)
    return [
        PlantedRates(
            workload=str(workload),
            target=alike[0].target,
            chain=chain,
            slowdown=math.exp(-_mean(alike)) - 1.0,
            comparisons=len(alike),
            found=sum(each.verdict is Verdict.SLOWER for each in alike),
            apart=sum(each.high < 1.0 for each in alike),
            covered=_covered(alike, confidence),
        )
        for (workload, chain), alike in found.items()
    ]


def normal_deviate(ratio: PairedLogRatio) -> float:
    """The distance of a log-ratio from 0, as the normal deviate with the same probability as its t.

    A t of few degrees of freedom is often large by chance; its normal deviate has a root mean square of 1.
    """
    variance = ratio.variance
    if math.isinf(variance.value):
        return 0.0
    t = abs(ratio.mean) / math.sqrt(variance.value) if variance.value > 0 else math.inf * (ratio.mean != 0)
    tail = 0.5 if math.isnan(t) else t_upper_tail(t, variance.df)
    return math.copysign(-float(scipy.special.ndtri(max(tail, _LEAST_TAIL))), ratio.mean)


def _covered(alike: Sequence[Compared], confidence: float) -> int | None:
    """Number of comparisons that agree with the mean of the others, the best known truth; None for a single one.

    The interval is of the difference, so that it includes the noise of the others' mean.
    """
    if len(alike) < 2:
        return None
    return sum(_agrees(each, [other for other in alike if other is not each], confidence) for each in alike)


def _agrees(one: Compared, others: Sequence[Compared], confidence: float) -> bool:
    count = len(others)
    theirs = [Variance(other.ratio.variance.value / count**2, other.ratio.variance.df) for other in others]
    difference = one.ratio.mean - _mean(others)
    return abs(difference) <= half_width_of(add_variances([one.ratio.variance, *theirs]), confidence)


def _mean(compared: Sequence[Compared]) -> float:
    return sum(each.ratio.mean for each in compared) / len(compared)


@dataclass
class CalibrationResult:
    """How a calibration ended; `calibration` is None if it was stopped before its first run was complete."""

    calibration: Calibration | None = None
    rows: list[Measurement] = field(default_factory=list)
    interrupted: bool = False


def calibrate(subject: CalibrationSubject, results: Path, observer: Observer) -> CalibrationResult:
    """Measures a calibration and keeps its results after each run; a complete one replaces the machine's own record.

    Runs are written to a folder below `results` in which no verb looks for runs. Raises GdnbenchError if the planted
    kernel cannot be measured here, or nothing can be written.
    """
    began = datetime.now(UTC)
    folder = results / CALIBRATIONS / f"{began:%Y%m%d-%H%M%S}-{subject.gpu.slug}"
    outcome, compared = CalibrationResult(), list[Compared]()
    pilot = _run(subject, pilot_plan(subject), folder, observer)
    if pilot.interrupted:
        return CalibrationResult(interrupted=True)
    chains = choose_chains(pilot.analysis)
    for number in range(1, subject.runs + 1):
        observer(RaceStatus(f"run {number} of {subject.runs}"))
        finished = _run(subject, run_plan(subject, chains, number), folder, observer)
        if finished.interrupted:
            outcome.interrupted = True
            break
        outcome.rows += finished.analysis.measurements
        compared += comparisons_of(finished.analysis, chains)
        outcome.calibration = describe(subject, folder, began, number, compared)
        write_calibration(folder / NAME, outcome.calibration)
    if outcome.calibration and outcome.calibration.is_whole:
        write_calibration(calibration_path(host_name(), subject.gpu.slug), outcome.calibration)
    return outcome


def _run(subject: CalibrationSubject, plan: Plan, folder: Path, observer: Observer) -> Finished:
    return begin_session(subject.catalog, plan, folder, observer).run()


def describe(
    subject: CalibrationSubject, folder: Path, began: datetime, runs: int, compared: Sequence[Compared]
) -> Calibration:
    """The calibration that the comparisons of the runs so far give; `began` is the start of the first."""
    settings = subject.settings
    return Calibration(
        timestamp=began.isoformat(timespec="seconds"),
        host=host_name(),
        gpu=subject.gpu.slug,
        gpu_name=subject.gpu.name,
        uuid=subject.gpu.uuid,
        driver=read_state(subject.gpu).driver_version,
        folder=str(folder.resolve()),
        runs=runs,
        asked=subject.runs,
        processes=settings.processes,
        rounds=settings.rounds,
        margin=settings.margin,
        confidence=settings.confidence,
        equal=equal_rates(compared, settings.confidence),
        planted=planted_rates(compared, settings.confidence),
    )
