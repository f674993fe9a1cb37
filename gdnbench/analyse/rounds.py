"""The samples by case and round, and the times that they give."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gdnbench.model.case import Case, key_of
from gdnbench.model.measurement import Timing
from gdnbench.model.status import Status, Timer
from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.card_effects import CardEffects
from gdnbench.stats.estimators import MAD_TO_SD, infer_resolution_us, interpolated_median, median_known, trimmed_mean
from gdnbench.stats.interval import Interval
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, ProcessEffects, estimate_effects
from gdnbench.store.journal import BURN_IN, Event, Examined, HostTimes, Sampled, Tuned
from gdnbench.store.samples import RoundRow
from gdnbench.store.settings import GPU_TRIM


@dataclass
class Collected:
    """All samples of a run by one clock, by case id, then by round.

    By case id, too: `cpu_us`, the host time per launch in µs; `lost`, failures of cases while they were measured;
    `burn_ins`, numbers of workers that measured a case; `tuned`, the distinct choices of tuners.
    """

    samples: dict[str, dict[int, Sampled]] = field(default_factory=dict)
    cpu_us: dict[str, float] = field(default_factory=dict)
    lost: dict[str, Examined] = field(default_factory=dict)
    burn_ins: Counter[str] = field(default_factory=Counter)
    tuned: dict[str, list[str]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Adds an event; the burn-in round is only counted."""
        match event:
            case Sampled(round=number, case=case_id) if number == BURN_IN:
                self.burn_ins[case_id] += 1
            case Sampled(round=number, case=case_id):
                self.samples.setdefault(case_id, {})[number] = event
            case HostTimes():
                self.cpu_us.update(event.cpu_us)
            case Tuned():
                chosen, choice = self.tuned.setdefault(event.case, []), "; ".join(event.configs)
                chosen += [choice] if choice not in chosen else []
            case Examined(status=status) if status is not Status.OK:
                self.lost[event.case] = event
                self.samples.pop(event.case, None)

    def cheated(self) -> dict[str, Examined]:
        """The cases that were wrong when timed, or that tampered, by id."""
        return {
            id_: lost for id_, lost in self.lost.items() if lost.status in {Status.WRONG_WHEN_TIMED, Status.TAMPERS}
        }

    def complete_rounds(self, case_ids: Iterable[str]) -> set[int]:
        """The rounds in which every one of the cases was measured."""
        rounds = [set(self.samples.get(case_id, ())) for case_id in case_ids]
        return set.intersection(*rounds) if rounds else set()

    def rounds_done(self, groups: Iterable[Iterable[Case]]) -> int:
        """The least number of complete rounds of the groups, without their lost cases."""
        left = ([case.id for case in group if case.id not in self.lost] for group in groups)
        return min((len(self.complete_rounds(ids)) for ids in left if ids), default=0)

    def drop_incomplete_rounds(self, case_ids: Iterable[str], others: Iterable[str] = ()) -> None:
        """Drops rounds that a worker's death cut short; other workers measured `others` beside some of these."""
        ids = list(case_ids)
        complete = self.complete_rounds(ids).union(
            *(self.samples.get(other, {}) for other in {*others}.difference(ids))
        )
        for case_id in ids:
            left = {number: sampled for number, sampled in self.samples.get(case_id, {}).items() if number in complete}
            self.samples[case_id] = left


LOW_CLOCK = 0.97  # share of the run's median SM clock: a kernel of 5 µs then reads up to 3 % slow


@dataclass(frozen=True)
class LeastWork:
    """The least work of a case; 0 where unknown.

    Times are of operations at the GPU's peak, and of bytes at the rated bandwidth, µs; without a measured copying
    floor, operations are the bound only if they take longer than the latter.
    """

    nbytes: int = 0
    flops: int = 0
    peak_us: float = 0.0
    rated_copy_us: float = 0.0


UNKNOWN = Interval(math.nan, -math.inf, math.inf)


@dataclass(frozen=True)
class WorkloadTimes:
    """The times of a workload's cases in the same rounds: shape (rounds,) by case id, µs, NaN where a round is missing.

    `apart` are the cases timed in separate processes because they run Python of their own, with their baseline and
    bounds in the same rounds; None if there are none.
    """

    times: Mapping[str, FloatArray]
    effects: ProcessEffects[str] | CardEffects[str]
    confidence: float
    apart: WorkloadTimes | None = None

    def of(self, case_id: str) -> WorkloadTimes:
        """The times that hold a case: these, or those of the separate processes."""
        return self.apart if self.apart and case_id not in self.times else self

    @property
    def bridged_apart(self) -> dict[str, tuple[float, float]]:
        """Mean times in µs, here and in the separate processes, of the cases timed in both, by case id."""
        if self.apart is None:
            return {}
        both = self.times.keys() & self.apart.times.keys()
        return {id_: (float(np.nanmean(self.times[id_])), float(np.nanmean(self.apart.times[id_]))) for id_ in both}

    def interval(self, case_id: str) -> Interval:
        """A case's time in µs: the geometric mean over rounds, with the noise of rounds and processes."""
        if self.of(case_id) is not self:
            return self.of(case_id).interval(case_id)
        times = self.effects.without_launch(self.times[case_id])
        ratio = PairedLogRatio.from_rounds(
            np.ones_like(times), times, self.effects.process, self.effects.of_time(case_id, times)
        )
        return ratio.speedup(self.confidence)

    def has_beside(self, case_id: str, other_id: str) -> bool:
        """Whether another case was timed in processes of the same kind; a stopped run may lack it."""
        return other_id in self.of(case_id).times

    def paired(self, case_id: str, baseline_id: str) -> PairedLogRatio:
        """The paired log(baseline / case) over rounds."""
        own = self.of(case_id)
        times = own.times[case_id], own.times[baseline_id]
        return PairedLogRatio.with_effects((case_id, baseline_id), times, own.effects)

    def ratio(self, case_id: str, baseline_id: str) -> Interval:
        """The baseline's time over the case's; `UNKNOWN` if the baseline has none in the same processes."""
        if not self.has_beside(case_id, baseline_id):
            return UNKNOWN
        return self.paired(case_id, baseline_id).speedup(self.confidence)


class RoundTimes:
    """Round times of every case, aligned by round, with their processes and clocks.

    Cases that run Python of their own (`apart`, by id) are timed in separate processes, with their baseline and bounds;
    the times of other cases do not use these rounds. `trim` is the share of samples that a round's time leaves out at
    either end. `times` has shape (rounds,) by case id, µs, NaN where a round is missing.
    """

    def __init__(
        self, collected: Collected, confidence: float, trim: float = GPU_TRIM, apart: Collection[str] = ()
    ) -> None:
        self._confidence = confidence
        self._trim = trim
        self._cpu_us = collected.cpu_us
        self._all = {case_id: rounds for case_id, rounds in collected.samples.items() if rounds}
        self._samples, self._shared = _split(self._all, apart)
        self._numbers = sorted({number for rounds in self._all.values() for number in rounds})
        others = {id_: rounds for id_, rounds in self._samples.items() if id_ not in apart} or self._samples
        pooled = [sampled.times_us for rounds in others.values() for sampled in rounds.values()]
        self._tick_us = infer_resolution_us(np.concatenate([np.asarray(times) for times in pooled])) if pooled else None
        self.times = {case_id: self._align(rounds, self._location) for case_id, rounds in self._samples.items()}
        self._medians = {case_id: self._align(rounds, self._median) for case_id, rounds in self._samples.items()}
        self._clocks = {case_id: self._align(rounds, _clock) for case_id, rounds in self._samples.items()}
        clocks = [clock for case_id in others for clock in self._clocks[case_id] if np.isfinite(clock)]
        self._usual_mhz = float(np.median(clocks)) if clocks else float("nan")

    def _location(self, sampled: Sampled) -> float:
        return trimmed_mean(np.asarray(sampled.times_us), self._trim)

    def _median(self, sampled: Sampled) -> float:
        return interpolated_median(np.asarray(sampled.times_us), self._tick_us)

    def _align(self, rounds: Mapping[int, Sampled], of: Callable[[Sampled], float]) -> FloatArray:
        return np.array([of(rounds[number]) if number in rounds else np.nan for number in self._numbers])

    def process(self, case_ids: Iterable[str]) -> IntArray:
        """The process that measured each round of some cases of one workload, shape (rounds,); 0 if none did."""
        process = np.zeros(len(self._numbers), dtype=int)
        for case_id in case_ids:
            rounds = self._all[case_id]
            process = np.maximum(process, [rounds[each].process if each in rounds else 0 for each in self._numbers])
        return process

    def _is_apart(self, case_id: str) -> bool:
        """Whether a case was timed in separate processes, with only its own kind and what that is compared with."""
        return case_id not in self._shared and any(
            self._samples[case_id].keys() & rounds.keys()
            for other, rounds in self._shared.items()
            if key_of(other) == key_of(case_id)
        )

    def counts(self, case_id: str) -> dict[str, int]:
        """The numbers of `rounds` and `processes` of a case."""
        measured = np.isfinite(self.times[case_id])
        return {"rounds": int(measured.sum()), "processes": len(set(self.process([case_id])[measured].tolist()))}

    def low_clock(self, case_id: str) -> int:
        """Number of a case's rounds with an SM clock below `LOW_CLOCK` of the run's median."""
        return int(np.sum(self._clocks[case_id] < LOW_CLOCK * self._usual_mhz))

    def means(self, case_id: str) -> FloatArray:
        """The mean of all samples of each round, shape (rounds,), µs."""
        return self._align(self._samples[case_id], _mean)

    def together(self, case_ids: Sequence[str]) -> dict[str, FloatArray]:
        """The times of several cases, in the rounds in which every one of them was measured."""
        common = np.logical_and.reduce([np.isfinite(self.times[case_id]) for case_id in case_ids])
        return {case_id: self.times[case_id][common] for case_id in case_ids}

    def workload(
        self,
        case_ids: Sequence[str],
        timer: Timer = "",
        left_out: Collection[str] = (),
        own_sds: Mapping[str, float] | None = None,
    ) -> WorkloadTimes:
        """The times of the cases of a workload, with the effects of processes; NVBench's times include a launch."""
        process = self.process(case_ids)

        def with_effects(times: Mapping[str, FloatArray]) -> WorkloadTimes:
            effects = estimate_effects(
                times,
                process,
                left_out=set(left_out) & times.keys(),
                has_launch=timer == "nvbench",
                usual_sd_us=USUAL_LAUNCH_SD_US,
                own_sds=own_sds,
            )
            return WorkloadTimes(times, effects, self._confidence)

        shared = {
            case_id: self._align(self._shared[case_id], self._location)
            for case_id in case_ids
            if case_id in self._shared
        }
        apart = [case_id for case_id in case_ids if self._is_apart(case_id)] if shared else []
        own = with_effects({case_id: self.times[case_id] for case_id in case_ids if case_id not in apart})
        if not apart:
            return own
        return replace(own, apart=with_effects(shared | {case_id: self.times[case_id] for case_id in apart}))

    def interval(self, case_id: str) -> Interval:
        """A case's time in µs, with its interval over rounds."""
        return self.workload([case_id]).interval(case_id)

    def timing(self, case_id: str, timer: Timer, cost: LeastWork, floor_id: str, at: WorkloadTimes) -> Timing:
        """A case's time and the figures derived from it; `floor_id` is its copying floor's, empty if there is none."""
        times = self.times[case_id]
        interval = at.interval(case_id)
        samples = np.concatenate([np.asarray(sampled.times_us) for sampled in self._samples[case_id].values()])
        middle = float(np.median(samples))
        p10, p90 = np.percentile(samples, (10, 90))
        copy_us = at.interval(floor_id).estimate if floor_id else 0.0
        flops_bind = cost.peak_us > (copy_us or cost.rated_copy_us)
        sol = at.ratio(case_id, floor_id) if floor_id else UNKNOWN
        if flops_bind:
            sol = Interval(cost.peak_us / interval.estimate, cost.peak_us / interval.high, cost.peak_us / interval.low)
        return Timing(
            timer=timer,
            samples=len(samples),
            rounds=int(np.isfinite(times).sum()),
            time_us=interval.estimate,
            time_lo_us=interval.low,
            time_hi_us=interval.high,
            mean_us=float(np.nanmean(self.means(case_id))),
            median_us=median_known(self._medians[case_id]),
            min_us=float(samples.min()),
            p10_us=float(p10),
            p90_us=float(p90),
            noise=MAD_TO_SD * float(np.median(np.abs(samples - middle))) / middle,
            cpu_time_us=self._cpu_us.get(case_id, float("nan")),
            sm_mhz=median_known(self._clocks[case_id]),
            bandwidth_gbs=cost.nbytes / interval.estimate / 1e3 if cost.nbytes else float("nan"),
            tflops=cost.flops / interval.estimate / 1e6 if cost.flops else float("nan"),
            bound="flops" if flops_bind else "copy" if floor_id else "",
            sol=sol.estimate,
            sol_lo=sol.low,
            sol_hi=sol.high,
        )

    def rows(self, run_id: str, timer: Timer) -> list[RoundRow]:
        """A row per case and round."""
        return [
            RoundRow(
                run_id=run_id,
                case=case_id,
                timer=timer,
                round=number,
                process=sampled.process,
                samples=len(sampled.times_us),
                time_us=self._location(sampled),
                mean_us=_mean(sampled),
                median_us=self._median(sampled),
                sm_mhz=_clock(sampled) if sampled.sm_mhz else None,
                low_clock=bool(_clock(sampled) < LOW_CLOCK * self._usual_mhz),
                checked=sampled.checked,
            )
            for case_id, rounds in self._all.items()
            for number, sampled in sorted(rounds.items())
        ]


_Rounds = dict[str, dict[int, Sampled]]


def _split(samples: _Rounds, apart: Collection[str]) -> tuple[_Rounds, _Rounds]:
    """Splits samples, by process, into each case's own rounds and those of shared cases in the separate processes."""
    taken: dict[str, set[int]] = {}
    for case_id in samples.keys() & set(apart):
        taken.setdefault(key_of(case_id), set()).update(sampled.process for sampled in samples[case_id].values())
    own, shared = dict(samples), {}
    for case_id, rounds in samples.items():
        processes = taken.get(key_of(case_id), set())
        apart_rounds = {number for number, sampled in rounds.items() if sampled.process in processes}
        if case_id not in apart and apart_rounds and len(apart_rounds) < len(rounds):
            shared[case_id] = {number: rounds[number] for number in apart_rounds}
            own[case_id] = {number: sampled for number, sampled in rounds.items() if number not in apart_rounds}
    return own, shared


def _mean(sampled: Sampled) -> float:
    return float(np.mean(sampled.times_us))


def _clock(sampled: Sampled) -> float:
    return float(np.median(sampled.sm_mhz)) if sampled.sm_mhz else float("nan")
