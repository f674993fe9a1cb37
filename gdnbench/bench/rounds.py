"""The samples of a run by case and round, and what a case's rounds say of its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gdnbench.bench.events import Sampled
from gdnbench.bench.measuring import Collected
from gdnbench.model import Timer, Timing
from gdnbench.stats import (
    FloatArray,
    Interval,
    infer_tick_us,
    interpolated_median,
    interquartile_mean,
    round_interval,
)
from gdnbench.stats.scale import MAD_TO_SD
from gdnbench.store import RoundRow

LOW_CLOCK = 0.97  # of the run's median SM clock; a kernel of 5 µs then reads up to 3 % slow


class Rounds:
    """Round times of every case, aligned by round, with the clocks beside them."""

    def __init__(self, collected: Collected, confidence: float) -> None:
        self._confidence = confidence
        self._cpu_us = collected.cpu_us
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

    def _align(self, rounds: Mapping[int, Sampled], of: Callable[[Sampled], float]) -> FloatArray:
        return np.array([of(rounds[number]) if number in rounds else np.nan for number in self._numbers])

    def low_clock(self, case_id: str) -> int:
        """How many of a case's rounds ran well below the run's median clock."""
        return int(np.sum(self._clocks[case_id] < LOW_CLOCK * self._usual_mhz))

    def together(self, case_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The times of several cases, in the rounds in which every one of them was measured."""
        common = np.logical_and.reduce([np.isfinite(self.times[case_id]) for case_id in case_ids])
        return {case_id: self.times[case_id][common] for case_id in case_ids}

    def interval(self, case_id: str) -> Interval:
        """A case's time, with its interval over rounds."""
        return round_interval(self.times[case_id], self._confidence)

    def timing(self, case_id: str, timer: Timer, nbytes: int, floor_id: str) -> Timing:
        """A case's time and what derives from it.

        Args:
            case_id: the case.
            timer: what measured.
            nbytes: the least that it must move; 0 for no bandwidth.
            floor_id: the case that is its speed of light; empty if there is none.
        """
        times = self.times[case_id]
        interval = self.interval(case_id)
        samples = np.concatenate([np.asarray(sampled.times_us) for sampled in self._samples[case_id].values()])
        middle = float(np.median(samples))
        p10, p90 = np.percentile(samples, (10, 90))
        floor_us = self.interval(floor_id).estimate if floor_id else float("nan")
        return Timing(
            timer=timer,
            samples=len(samples),
            rounds=int(np.isfinite(times).sum()),
            time_us=interval.estimate,
            time_lo_us=interval.low,
            time_hi_us=interval.high,
            median_us=_median_known(self._medians[case_id]),
            min_us=float(samples.min()),
            p10_us=float(p10),
            p90_us=float(p90),
            noise=MAD_TO_SD * float(np.median(np.abs(samples - middle))) / middle,
            cpu_time_us=self._cpu_us.get(case_id, float("nan")),
            sm_mhz=_median_known(self._clocks[case_id]),
            bandwidth_gbs=nbytes / interval.estimate / 1e3 if nbytes else float("nan"),
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


def _location(sampled: Sampled) -> float:
    return interquartile_mean(np.asarray(sampled.times_us))


def _clock(sampled: Sampled) -> float:
    return float(np.median(sampled.sm_mhz)) if sampled.sm_mhz else float("nan")


def _median_known(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")
