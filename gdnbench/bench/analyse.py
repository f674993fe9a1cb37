"""Makes rows of samples: times, intervals, comparisons, and the warnings that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gdnbench.bench.events import Examined, Sampled
from gdnbench.bench.measuring import Collected
from gdnbench.bench.request import Settings
from gdnbench.model import Build, Case, Measurement, Op, Role, Shape, Status, Timer, Timing, Versus
from gdnbench.stats import (
    Comparison,
    FloatArray,
    Verdict,
    compare_family,
    compare_rounds,
    infer_tick_us,
    interpolated_median,
    interquartile_mean,
    round_interval,
)
from gdnbench.store import RoundRow

LOW_CLOCK = 0.97  # of the run's median SM clock; a kernel of 5 µs then reads up to 3 % slow
WIDE = 0.01  # a half-width that deserves a word
MAD_TO_SIGMA = 1.4826  # of a normal distribution


@dataclass(frozen=True)
class Analysis:
    """What a run's samples say.

    Attributes:
        measurements: one per case, in the order of the plan.
        rounds: one per case and round.
        warnings: what qualifies the whole run.
    """

    measurements: tuple[Measurement, ...]
    rounds: tuple[RoundRow, ...]
    warnings: tuple[str, ...]


def analyse(
    op: Op,
    cases: Sequence[Case],
    judged: Mapping[str, Examined],
    builds: Mapping[str, Build],
    collected: Collected,
    settings: Settings,
    *,
    timer: Timer,
    run_id: str,
) -> Analysis:
    """Rows for every case, measured or not.

    Args:
        op: the op, for its traffic.
        cases: every case of the plan.
        judged: the preflight's verdicts by case id; a case without one was not reached.
        builds: builds for the GPU at hand, by case id.
        collected: the samples.
        settings: margin and confidence.
        timer: what measured.
        run_id: for the rows.
    """
    rounds = _Rounds(collected)
    measured = [
        case for case in cases if case.id in rounds.times and _verdict(case, judged, collected).status is Status.OK
    ]
    comparisons = _compare(measured, rounds, settings)
    copies = [case for case in measured if case.variant.kernel == op.floor]
    copies.sort(key=lambda case: float(np.nanmedian(rounds.times[case.id])), reverse=True)
    floors = {case.shape: case for case in copies}  # the fastest copy of each shape: it comes last
    rows = []
    for case in cases:
        row = _bare_row(op, case, _verdict(case, judged, collected), builds.get(case.id))
        if case in measured:
            timing = rounds.timing(case, timer, row.nbytes, collected.cpu_us, floors.get(case.shape), settings)
            versus = comparisons.get(case.id)
            row = replace(row, timing=timing, versus=versus, warnings=_row_warnings(timing, rounds.low_clock(case.id)))
        elif row.status is Status.OK:
            row = replace(row, status=Status.NOT_RUN, reason="the run was stopped before it was measured")
        rows.append(row)
    return Analysis(tuple(rows), tuple(rounds.rows(run_id, timer)), _run_warnings(rows))


class _Rounds:
    """Round times of every case, aligned by round, with the clocks beside them."""

    def __init__(self, collected: Collected) -> None:
        self._samples = {case_id: rounds for case_id, rounds in collected.samples.items() if rounds}
        self._numbers = sorted({number for rounds in self._samples.values() for number in rounds})
        pooled = [sampled.times_us for rounds in self._samples.values() for sampled in rounds.values()]
        self._tick_us = infer_tick_us(np.concatenate([np.asarray(times) for times in pooled])) if pooled else None
        self.times = {case_id: self._align(rounds, _location) for case_id, rounds in self._samples.items()}
        self._medians = {case_id: self._align(rounds, self._median) for case_id, rounds in self._samples.items()}
        self._clocks = {case_id: self._align(rounds, _clock) for case_id, rounds in self._samples.items()}
        known = [clock for clocks in self._clocks.values() for clock in clocks if np.isfinite(clock)]
        self._usual_mhz = float(np.median(known)) if known else float("nan")

    def _median(self, sampled: Sampled) -> float:
        return interpolated_median(np.asarray(sampled.times_us), self._tick_us)

    def _align(self, rounds, of) -> FloatArray:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return np.array([of(rounds[number]) if number in rounds else np.nan for number in self._numbers])

    def low_clock(self, case_id: str) -> int:
        """How many of a case's rounds ran well below the run's median clock."""
        return int(np.sum(self._clocks[case_id] < LOW_CLOCK * self._usual_mhz))

    def timing(
        self, case: Case, timer: Timer, nbytes: int, cpu_us: Mapping[str, float], floor: Case | None, settings: Settings
    ) -> Timing:
        """A case's time and what derives from it."""
        times = self.times[case.id]
        interval = round_interval(times, settings.confidence)
        samples = np.concatenate([np.asarray(sampled.times_us) for sampled in self._samples[case.id].values()])
        middle = float(np.median(samples))
        p10, p90 = np.percentile(samples, (10, 90))
        floor_us = round_interval(self.times[floor.id], settings.confidence).estimate if floor else float("nan")
        return Timing(
            timer=timer,
            samples=len(samples),
            rounds=int(np.isfinite(times).sum()),
            time_us=interval.estimate,
            time_lo_us=interval.low,
            time_hi_us=interval.high,
            median_us=_median_known(self._medians[case.id]),
            min_us=float(samples.min()),
            p10_us=float(p10),
            p90_us=float(p90),
            noise=MAD_TO_SIGMA * float(np.median(np.abs(samples - middle))) / middle,
            cpu_time_us=cpu_us.get(case.id, float("nan")),
            sm_mhz=_median_known(self._clocks[case.id]),
            bandwidth_gbs=nbytes / interval.estimate / 1e3,
            sol=floor_us / interval.estimate,
        )

    def rows(self, run_id: str, timer: Timer) -> list[RoundRow]:
        """A row per case and round."""
        return [
            RoundRow(
                run_id=run_id,
                case=case_id,
                timer=timer,
                round=number,
                samples=len(sampled.times_us),
                time_us=_location(sampled),
                median_us=self._median(sampled),
                sm_mhz=_clock(sampled) if sampled.sm_mhz else None,
                low_clock=bool(_clock(sampled) < LOW_CLOCK * self._usual_mhz),
            )
            for case_id, rounds in self._samples.items()
            for number, sampled in sorted(rounds.items())
        ]


def _compare(measured: Sequence[Case], rounds: _Rounds, settings: Settings) -> dict[str, Versus]:
    """Every kernel against the baseline of its shape, corrected for their number; the control on its own.

    The control stands outside the family: it is the run's alarm, and a correction would make it deaf.
    """
    baselines = {case.shape: case for case in measured if case.role is Role.BASELINE}
    pairs = {
        case: (rounds.times[case.id], rounds.times[baselines[case.shape].id])
        for case in measured
        if case.shape in baselines and case.role in {Role.KERNEL, Role.CONTROL}
    }
    family = {case: pair for case, pair in pairs.items() if case.role is Role.KERNEL}
    found = compare_family(family, margin=settings.margin, confidence=settings.confidence)
    for case in pairs.keys() - family.keys():
        found[case] = compare_rounds(*pairs[case], margin=settings.margin, confidence=settings.confidence)
    return {case.id: _versus(baselines[case.shape], comparison) for case, comparison in found.items()}


def _versus(baseline: Case, comparison: Comparison) -> Versus:
    return Versus(
        baseline=baseline.label,
        speedup=comparison.speedup.estimate,
        low=comparison.speedup.low,
        high=comparison.speedup.high,
        verdict=comparison.verdict.value,
        more_rounds=comparison.more_rounds,
    )


def _verdict(case: Case, judged: Mapping[str, Examined], collected: Collected) -> Examined:
    not_reached = Examined(case.id, Status.NOT_RUN, "the run was stopped before its turn")
    return collected.lost.get(case.id) or judged.get(case.id, not_reached)


def _bare_row(op: Op, case: Case, verdict: Examined, build: Build | None) -> Measurement:
    return Measurement(
        case=case,
        status=verdict.status,
        reason=verdict.reason,
        nbytes=_traffic(op, case.shape),
        launches=verdict.launches,
        registers=build.registers if build else -1,
        shared_bytes=build.shared_bytes if build else -1,
        spill_bytes=build.spill_bytes if build else -1,
    )


def _traffic(op: Op, shape: Shape) -> int:
    return op.traffic_bytes(shape)


def _row_warnings(timing: Timing, low_clock: int) -> tuple[str, ...]:
    warnings = []
    if low_clock:
        warnings.append(f"{low_clock} of {timing.rounds} rounds below {LOW_CLOCK:.0%} of the run's median clock")
    if timing.relative_half_width > WIDE:
        warnings.append(f"interval of ±{timing.relative_half_width:.1%}: more rounds would narrow it")
    return tuple(warnings)


def _run_warnings(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """The A/A alarm: the baseline measured against itself should be the same."""
    warnings = []
    for row in rows:
        if row.role is Role.CONTROL and row.versus and row.versus.verdict in {Verdict.FASTER, Verdict.SLOWER}:
            apart = abs(row.versus.speedup - 1)
            warnings.append(f"{row.case.shape}: the baseline against itself reads {apart:.2%} apart: so much is noise")
    return tuple(warnings)


def _location(sampled: Sampled) -> float:
    return interquartile_mean(np.asarray(sampled.times_us))


def _clock(sampled: Sampled) -> float:
    return float(np.median(sampled.sm_mhz)) if sampled.sm_mhz else float("nan")


def _median_known(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")
