"""Measures a calibration: the pilot, then one run after the other, each an ordinary run in a folder of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gdnbench.calibrate.plan import CalibrationSubject, choose_chains, pilot_plan, run_plan
from gdnbench.calibrate.rates import Compared, comparisons_of, equal_rates, planted_rates
from gdnbench.machine.provenance import host_name
from gdnbench.machine.state import read_state
from gdnbench.measuring.observer import Observer
from gdnbench.measuring.opening import begin_session
from gdnbench.measuring.plan import Plan
from gdnbench.measuring.session import Finished
from gdnbench.model.measurement import Measurement
from gdnbench.places import CALIBRATIONS
from gdnbench.store.calibration import NAME, Calibration, calibration_path, write_calibration


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
        observer.standing(f"run {number} of {subject.runs}")
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
