"""Plans a calibration: one kernel under several names, and with chains of dependent additions planted in it.

A chain costs another share of the time at each workload and on each GPU. A pilot, a short run with a ladder of chains,
therefore chooses the chains for the wanted slowdowns.
"""

from __future__ import annotations

import math
import secrets
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy

from gdnbench.analyse.analysis import Analysis
from gdnbench.catalog.catalog import Catalog, default_roots, find_op, load_catalog
from gdnbench.catalog.request import Request, parse_workloads
from gdnbench.errors import MachineError, UsageError
from gdnbench.machine.provenance import host_name, read_state
from gdnbench.measure.plan import Plan, foresee, make_plan
from gdnbench.measure.start import begin_session
from gdnbench.model.case import Case
from gdnbench.model.declaration import ParamValue
from gdnbench.model.gpu import Gpu
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Op
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.origin import CALIBRATIONS
from gdnbench.process.events import Observer, RaceStatus
from gdnbench.stats.interval import Variance, Verdict, add_variances, half_width_of, t_upper_tail
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.store.calibration import NAME, Calibration, EqualRates, PlantedRates, calibration_path, write_calibration
from gdnbench.store.settings import Settings, choose_settings

PLANTED_ROOT = Path(__file__).resolve().parent / "planted"
"""Catalog root of the planted kernel, which no other verb loads."""
OP = "decode"
KERNEL = "decode-planted"
EQUAL = 4  # number of further names of the kernel
TARGETS = (0.003, 0.007, 0.01, 0.02)
"""Slowdowns to plant, as shares of the time: below the margin, just above it, and well above."""
LADDER = (8, 16, 32, 64, 128, 256, 512)
"""Chains of the pilot. On an H200, 84 additions cost 4 % at B=1; at large batches other warps hide most of them."""
PILOT = Settings(rounds=21, samples=64, processes=1)
FEWEST_RUNS = 2
DEFAULT_RUNS = 6
DEFAULT_WORKLOADS = "B=1,8,64"

Chains = Mapping[Workload, Mapping[int, float]]  # the chains to plant at each workload, each with its wanted slowdown


@dataclass(frozen=True)
class CalibrationSubject:
    """What is calibrated, and how: a catalog of the bundled kernels and the planted one, and each run's settings."""

    catalog: Catalog
    op: Op
    gpu: Gpu
    workloads: tuple[Workload, ...]
    settings: Settings
    runs: int

    @property
    def longest_s(self) -> float:
        """Upper limit of the measuring time in seconds, without building and checking."""
        chains = {workload: dict.fromkeys(LADDER[: len(TARGETS)], 0.0) for workload in self.workloads}
        a_run = foresee(self.catalog, run_plan(self, chains, 1)).measuring_s
        return foresee(self.catalog, pilot_plan(self)).measuring_s + self.runs * a_run

    @property
    def cases(self) -> int:
        """Number of cases of a run."""
        others = 3  # the baseline, its control and the copying floor
        return len(self.workloads) * (EQUAL + len(TARGETS) + others)


def choose_subject(gpu: Gpu, *, axes: str, runs: int, processes: int | None, rounds: int | None) -> CalibrationSubject:
    """Makes the requested subject; runs are as `gdnbench run` makes them, by NVBench alone."""
    if runs < FEWEST_RUNS:
        raise UsageError(f"--runs {runs}: runs are held against one another", f"the default is {DEFAULT_RUNS}")
    settings = choose_settings("cuda", rounds=rounds, samples=Settings.samples, processes=processes, timers="nvbench")
    if settings.rounds < 2 * settings.processes:
        message = f"--rounds {settings.rounds}: each of {settings.processes} processes needs 2 to tell its noise"
        raise UsageError(message, "give more rounds, or fewer processes")
    catalog = load_catalog([default_roots()[0], PLANTED_ROOT])
    op = find_op(catalog, OP)
    return CalibrationSubject(catalog, op, gpu, parse_workloads(op, axes or DEFAULT_WORKLOADS), settings, runs)


def pilot_plan(subject: CalibrationSubject) -> Plan:
    """Plans one run of the ladder of chains at every workload."""
    chains = {workload: dict.fromkeys(LADDER, 0.0) for workload in subject.workloads}
    return _plan(subject, chains, equal=0, settings=PILOT, label="pilot")


def run_plan(subject: CalibrationSubject, chains: Chains, number: int, *, equal: int = EQUAL, alike: int = 1) -> Plan:
    """Plans run `number`: the kernel under `equal` further names, and slowed down under `alike` names each."""
    return _plan(subject, chains, equal=equal, alike=alike, settings=subject.settings, label=f"run-{number}")


def _plan(
    subject: CalibrationSubject, chains: Chains, *, equal: int, settings: Settings, label: str, alike: int = 1
) -> Plan:
    entry = subject.catalog.entries[KERNEL]
    planted = sorted({chain for lengths in chains.values() for chain in lengths})
    params: list[dict[str, ParamValue]] = [{"COPY": number} for number in range(1, equal + 1)]
    for length in planted:
        params.append({"CHAIN": length})
        params += [{"CHAIN": length, "COPY": number} for number in range(1, alike)]
    variants = tuple(entry.with_params(entry.default, each) for each in params)
    request = Request(
        subject.op,
        variants,
        subject.workloads,
        replace(settings, seed=secrets.randbelow(2**31)),
        baseline=KERNEL,
        label=label,
        command=shlex.join(["gdnbench", *sys.argv[1:]]),
    )
    plan = make_plan(subject.catalog, request, subject.gpu)
    return replace(plan, cases=tuple(case for case in plan.cases if chain_of(case) in {0, *chains[case.workload]}))


def chain_of(case: Case) -> int:
    """Number of additions planted in the case; 0 in the kernel itself, its equals and the floor."""
    return int(case.variant.params.get("CHAIN", 0))


def choose_chains(pilot: Analysis) -> Chains:
    """The chains for the wanted slowdowns, interpolated between the pilot's; the longest where none reaches."""
    found: dict[Workload, dict[int, float]] = {}
    for row in pilot.measurements:
        if chain_of(row.case):
            if row.versus is None:
                why = row.reason or "the kernel that it is compared with has none"
                raise MachineError(f"{row.case.label} {row.case.workload} has no time: {why}", "see `gdnbench doctor`")
            found.setdefault(row.case.workload, {})[chain_of(row.case)] = 1.0 / row.versus.speedup - 1.0
    return {workload: _chains_for(costs) for workload, costs in found.items()}


def _chains_for(costs: Mapping[int, float]) -> dict[int, float]:
    """A distinct chain for each wanted slowdown, from the slowdowns (`costs`) of the ladder's chains."""
    lengths = sorted(costs)
    # A longer chain costs no less; other readings of the pilot are noise.
    rising = np.maximum.accumulate([0.0, *(costs[length] for length in lengths)])
    between = np.interp(TARGETS, rising, [0, *lengths])
    chosen: dict[int, float] = {}
    last = 0
    for target, length in zip(TARGETS, between, strict=True):
        last = max(round(float(length)), last + 1)
        chosen[last] = target
    return chosen


_LEAST_TAIL = 1e-300  # least p-value, of 37 standard errors


@dataclass(frozen=True)
class Compared:
    """A comparison of a run whose truth is known."""

    workload: Workload
    label: str
    chain: int  # number of planted additions; 0 for an equal kernel
    target: float  # the slowdown that they are for; 0 for an equal kernel
    ratio: PairedLogRatio  # log(baseline / kernel), as the run judged it
    verdict: Verdict
    high: float  # upper end of the printed interval of baseline / kernel


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
    """A log-ratio's distance from 0 as the normal deviate of its t's probability: a t of few degrees is often large."""
    variance = ratio.variance
    if math.isinf(variance.value):
        return 0.0
    t = abs(ratio.mean) / math.sqrt(variance.value) if variance.value > 0 else math.inf * (ratio.mean != 0)
    tail = 0.5 if math.isnan(t) else t_upper_tail(t, variance.df)
    return math.copysign(-float(scipy.special.ndtri(max(tail, _LEAST_TAIL))), ratio.mean)


def _covered(alike: Sequence[Compared], confidence: float) -> int | None:
    """Number of comparisons that agree with the mean of the others, the best known truth; None for a single one."""
    if len(alike) < 2:
        return None
    covered, count = 0, len(alike) - 1
    for each in alike:
        others = [other for other in alike if other is not each]
        theirs = [Variance(other.ratio.variance.value / count**2, other.ratio.variance.df) for other in others]
        half_width = half_width_of(add_variances([each.ratio.variance, *theirs]), confidence)
        covered += abs(each.ratio.mean - _mean(others)) <= half_width
    return covered


def _mean(compared: Sequence[Compared]) -> float:
    return sum(each.ratio.mean for each in compared) / len(compared)


@dataclass
class CalibrationResult:
    """How a calibration ended; `calibration` is None if it was stopped before its first run was complete."""

    calibration: Calibration | None = None
    rows: list[Measurement] = field(default_factory=list)
    interrupted: bool = False


def calibrate(subject: CalibrationSubject, results: Path, observer: Observer) -> CalibrationResult:
    """Measures a calibration, in a folder that no verb reads; a complete one replaces the machine's record."""
    began = datetime.now(UTC)
    folder = results / CALIBRATIONS / f"{began:%Y%m%d-%H%M%S}-{subject.gpu.slug}"
    outcome, compared = CalibrationResult(), list[Compared]()
    pilot = begin_session(subject.catalog, pilot_plan(subject), folder, observer).run()
    if pilot.interrupted:
        return CalibrationResult(interrupted=True)
    chains = choose_chains(pilot.analysis)
    for number in range(1, subject.runs + 1):
        observer(RaceStatus(f"run {number} of {subject.runs}"))
        finished = begin_session(subject.catalog, run_plan(subject, chains, number), folder, observer).run()
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
