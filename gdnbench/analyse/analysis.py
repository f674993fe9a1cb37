"""Turns samples into measurements: times, intervals, comparisons, and the warnings that qualify them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gdnbench.analyse.rounds import LOW_CLOCK, Collected, LeastWork, RoundTimes, WorkloadTimes
from gdnbench.machine.gpus import GpuSpec
from gdnbench.model.case import Case
from gdnbench.model.gpu import CPU, Build
from gdnbench.model.measurement import LONG_TAIL, Measurement, Timing, Versus
from gdnbench.model.op import Op
from gdnbench.model.status import Clock, Role, Status, Timer
from gdnbench.model.workload import Workload
from gdnbench.stats.interval import Comparison, Verdict
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, process_means
from gdnbench.store.journal import Examined
from gdnbench.store.samples import RoundRow
from gdnbench.store.settings import Settings
from gdnbench.wording import half_interval

BEYOND = 0.05  # relative time by which a kernel may beat the fastest copying floor: it may move bytes better than any


def implausible(
    measured: Sequence[Case],
    costs: Mapping[str, LeastWork],
    floors: Mapping[Workload, str],
    at: Mapping[Workload, WorkloadTimes],
) -> dict[str, str]:
    """Returns, by case id, why a case cannot have done its work: its whole interval is below a lower limit.

    The limits are the fastest copying floor (`floors`) less `BEYOND`, an empty launch if one was timed, and the
    operations at the GPU's rated peak. Floors are compared by rounds, in which both have the same launch. An empty
    launch plus the bytes at the rated bandwidth is not a limit: much of a launch overlaps the transfer, and written
    data may stay in L2. Honest kernels at 17 to 270 MB read 0.87 of it on H200s.
    """
    empty = {case.workload: case.id for case in measured if case.role is Role.FLOOR and not costs[case.id].nbytes}
    reasons_by_id = {}
    for case in measured:
        if not case.role.does_the_work:
            continue
        here, cost = at[case.workload], costs[case.id]
        interval = here.interval(case.id)
        floor, nothing = floors.get(case.workload), empty.get(case.workload)
        reasons = []
        if interval.high < cost.peak_us:
            reasons.append((cost.peak_us, "its operations take at the GPU's peak"))
        if floor and here.ratio(case.id, floor).low * (1 - BEYOND) > 1:
            copy_us = here.interval(floor).estimate
            what = f"the fastest copy of its bytes takes, {copy_us:.3f} µs, less {BEYOND:.0%}"
            reasons.append((copy_us * (1 - BEYOND), what))
        if nothing and here.ratio(case.id, nothing).low > 1:
            reasons.append((here.interval(nothing).estimate, "an empty launch takes"))
        if reasons:
            limit_us, what = max(reasons)
            less = f"{interval.estimate:.3f} µs is less than {what}: {limit_us:.3f} µs"
            reasons_by_id[case.id] = f"{less}; it cannot have done all of its work each time"
    return reasons_by_id


SIGMAS = 6.0  # standard deviations between processes above which a floor's or baseline's time counts as changed
LEAST_OWN_SD = 0.004  # least relative SD of a case between processes, for the effect of rounds and their number


def bridge_warning(at: WorkloadTimes, own_sds: Mapping[str, float]) -> str:
    """Returns why the cases timed in separate processes are not compared, if shared cases differ there; else empty."""
    for case_id, (here_us, there_us) in at.bridged_apart.items():
        own_us = max(own_sds.get(case_id, 0.0), LEAST_OWN_SD) * here_us
        if abs(there_us - here_us) > SIGMAS * (USUAL_LAUNCH_SD_US**2 + own_us**2) ** 0.5:
            name = case_id.partition("/")[0]
            return (
                f"{name} takes {there_us:.3f} µs in the processes of kernels that run Python of their own, and "
                f"{here_us:.3f} µs in the others: something there changes times, so nothing is compared"
            )
    return ""


RECORDED_GAP_US = 0.2  # recording lengthens gaps between launches: kernel times lay up to 0.16 µs a gap above stream's
CHAIN_APART = 0.03  # relative difference of many launches' times between processes: 2.1 % where they are long


def contradictions(rows: Sequence[Measurement], kernel_times: Sequence[Measurement]) -> dict[str, str]:
    """Why a time with launch (`rows`) cannot be, by case id: CUPTI's is above it by more than recording explains."""
    own = {row.case.id: row.timing for row in kernel_times if row.timing}
    reasons = {}
    for row in rows:
        if row.timing and (kernel := own.get(row.case.id)):
            stream_us, kernel_us, gaps = row.timing.time_us, kernel.time_us, row.launches - 1
            explained_us = gaps * RECORDED_GAP_US + CHAIN_APART * kernel_us if gaps > 0 else 0.0
            if row.timing.time_hi_us < kernel.time_lo_us - explained_us:
                times = f"NVBench reads {stream_us:.3f} µs, launch included, and CUPTI {kernel_us:.3f} µs without it"
                reasons[row.case.id] = f"{times}: one of the two was interfered with"
    return reasons


WIDE = 0.03  # relative half-width of a time's interval above which a warning is given
ALARM = 0.998  # confidence at which the A/A pair counts as different: high, since a false alarm widens all verdicts
_NO_TIME = "the baseline has no time"
_APART = "the baseline against itself reads"
TAIL = 0.01  # relative difference of mean and trimmed mean above which the tail counts as long


@dataclass(frozen=True)
class Analysis:
    """What a run's samples give; `ratios` are log(baseline / kernel) by case id, as the verdict was judged."""

    measurements: tuple[Measurement, ...]
    rounds: tuple[RoundRow, ...]
    warnings: tuple[str, ...]
    clocks: tuple[Measurement, ...] = ()
    ratios: Mapping[str, PairedLogRatio] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Measurement, ...]:
        """The measurements by every clock, those of the run's own timer first."""
        return (*self.measurements, *self.clocks)


def analyse(
    op: Op,
    cases: Sequence[Case],
    checked: Mapping[str, Examined],
    builds: Mapping[str, Build],
    collected: Collected,
    settings: Settings,
    *,
    timer: Timer,
    run_id: str,
    copying: Collection[str],
    rated: GpuSpec | None = None,
    clock: Clock | None = None,
    warnings: Sequence[Mapping[str, str]] = (),
    apart: Collection[str] = (),
) -> Analysis:
    """Makes a row for every case, measured or not.

    `checked` has the preflight's results by case id, `copying` the copying floors, `rated` the GPU's peaks. `clock` is
    the further clock that measured, None for the run's own timer. `warnings` are on the code of cases, by case id. The
    cases `apart`, by id, run Python of their own and are timed in separate processes.
    """
    rounds = RoundTimes(collected, settings.confidence, settings.trim, apart)
    not_reached = {case.id: Examined(case.id, Status.NOT_RUN, "the run was stopped before its turn") for case in cases}
    verdicts = {**not_reached, **checked, **collected.lost}
    measured = [case for case in cases if case.id in rounds.times and verdicts[case.id].status is Status.OK]
    costs = {case.id: _cost(op, case, _bytes_moved(op, case, copying), rated) for case in measured}
    own_sds = own_sds_of(op, measured, checked) if timer != CPU else {}
    empty = {case.id for case in measured if costs[case.id].nbytes == 0}
    at = times_by_workload(rounds, measured, empty, timer, own_sds)
    floors = floors_of(measured, copying, at)
    too_fast = implausible(measured, costs, floors, at)
    if too_fast:  # their times must not enter the effects estimated for the others
        verdicts |= {id_: Examined(id_, Status.IMPLAUSIBLE, reason) for id_, reason in too_fast.items()}
        measured = [case for case in measured if case.id not in too_fast]
        at = times_by_workload(rounds, measured, empty, timer, own_sds)
    ratios = ratios_of(measured, at)
    split = {id_ for times in at.values() if times.apart for id_ in times.apart.times.keys() & set(apart)}
    comparisons = compare_cases(measured, ratios, margin=settings.margin, confidence=settings.confidence, apart=split)
    all_sds = {case.id: op.own_sd(verdicts[case.id].launches) for case in measured} if timer != CPU else {}
    bridges = {workload: bridge_warning(times, all_sds) for workload, times in at.items()}
    rows = []
    for case in cases:
        verdict, build = verdicts[case.id], builds.get(case.id)
        row = Measurement(
            case=case,
            status=verdict.status,
            reason=verdict.reason,
            nbytes=_bytes_moved(op, case, copying),
            launches=verdict.launches,
            registers=build.registers if build else -1,
            shared_bytes=build.shared_bytes if build else -1,
            spill_bytes=build.spill_bytes if build else -1,
            clock=clock,
        )
        if case in measured:
            here = at[case.workload]
            timing = rounds.timing(case.id, timer, costs[case.id], floors.get(case.workload, ""), here)
            of_code = tuple(each[case.id] for each in warnings if case.id in each)
            noted = (*of_code, *_row_warnings(timing, rounds.low_clock(case.id)), *outlier_warnings(case, here))
            versus = comparisons.get(case.id)
            if bridges[case.workload] and here.of(case.id) is not here:
                versus, noted = None, (bridges[case.workload], *noted)
            row = replace(row, timing=timing, versus=versus, warnings=noted)
        elif row.status is Status.OK:
            row = replace(row, status=Status.NOT_RUN, reason="the run was stopped before it was measured")
        rows.append(row)
    return Analysis(tuple(rows), tuple(rounds.rows(run_id, timer)), run_warnings(rows), ratios=ratios)


def own_sds_of(op: Op, cases: Sequence[Case], checked: Mapping[str, Examined]) -> dict[str, float]:
    """SD that a process adds to each case beside the launch, by case id (`Op.own_sd`); controls are left out."""
    launches = {id_: verdict.launches for id_, verdict in checked.items()}
    return {case.id: op.own_sd(launches.get(case.id, 1)) for case in cases if case.role is not Role.CONTROL}


def times_by_workload(
    rounds: RoundTimes,
    measured: Sequence[Case],
    left_out: Collection[str],
    timer: Timer,
    own_sds: Mapping[str, float],
) -> dict[Workload, WorkloadTimes]:
    """The times of each workload; nothing is estimated for other cases from those `left_out`, by id."""
    return {
        workload: rounds.workload([case.id for case in measured if case.workload == workload], timer, left_out, own_sds)
        for workload in dict.fromkeys(case.workload for case in measured)
    }


def floors_of(
    measured: Sequence[Case], copying: Collection[str], at: Mapping[Workload, WorkloadTimes]
) -> dict[Workload, str]:
    """Case id of the fastest copying floor of each workload, which is its speed of light."""
    copies = [case for case in measured if case.variant.kernel in copying]
    copies.sort(key=lambda case: at[case.workload].interval(case.id).estimate, reverse=True)
    return {case.workload: case.id for case in copies}


def ratios_of(
    measured: Sequence[Case],
    at: Mapping[Workload, WorkloadTimes],
    controls_at: Mapping[Workload, WorkloadTimes] | None = None,
) -> dict[str, PairedLogRatio]:
    """Paired log ratios of kernels, widened by the control's, and of the control, to their workload's baseline."""
    baselines = {case.workload: case for case in measured if case.role is Role.BASELINE}
    controls_at = at if controls_at is None else controls_at
    ratios: dict[Case, PairedLogRatio] = {}
    for case in measured:
        if case.workload in baselines and case.role in {Role.KERNEL, Role.CONTROL}:
            here = (controls_at if case.role is Role.CONTROL else at)[case.workload]
            if here.has_beside(case.id, baselines[case.workload].id):
                ratios[case] = here.paired(case.id, baselines[case.workload].id)
    control = {case.workload: (case, ratio) for case, ratio in ratios.items() if case.role is Role.CONTROL}

    def noise(case: Case) -> PairedLogRatio | None:
        """The control's ratio, in the processes that timed the case."""
        if case.workload not in control:
            return None
        again, ratio = control[case.workload]
        here = controls_at[case.workload].of(case.id)
        base = baselines[case.workload].id
        is_apart = here is not controls_at[case.workload] and {again.id, base} <= here.times.keys()
        return here.paired(again.id, base) if is_apart else ratio

    return {
        case.id: ratio.widened_by(noise(case), ALARM) if case.role is Role.KERNEL else ratio
        for case, ratio in ratios.items()
    }


def compare_cases(
    measured: Sequence[Case],
    ratios: Mapping[str, PairedLogRatio],
    *,
    margin: float,
    confidence: float,
    apart: Collection[str] = (),
) -> dict[str, Versus]:
    """Compares every kernel with its workload's baseline, corrected for the number of kernels.

    The cases in `apart` form a family of their own, so that their times cannot change another case's interval; so does
    the control, the run's alarm, which a correction would make less sensitive.
    """
    baselines = {case.workload: case for case in measured if case.role is Role.BASELINE}
    compared = {case: ratios[case.id] for case in measured if case.id in ratios}
    kernels = {case: ratio for case, ratio in compared.items() if case.role is Role.KERNEL}
    comparisons: dict[Case, Comparison] = {}
    for is_apart in (False, True):
        family = {case: ratio for case, ratio in kernels.items() if (case.id in apart) is is_apart}
        comparisons |= judge_family(family, margin=margin, confidence=confidence)
    for case in compared.keys() - kernels.keys():
        comparisons[case] = judge_paired(compared[case], margin, confidence)
    return {case.id: _versus(baselines[case.workload], comparison) for case, comparison in comparisons.items()}


def _versus(baseline: Case, comparison: Comparison) -> Versus:
    return Versus(
        baseline=baseline.label,
        speedup=comparison.speedup.estimate,
        low=comparison.speedup.low,
        high=comparison.speedup.high,
        verdict=comparison.verdict.value,
        more_rounds=comparison.more_rounds,
    )


def _bytes_moved(op: Op, case: Case, copying: Collection[str]) -> int:
    """The least bytes that the case must move; 0 for the empty floor, which has no bandwidth."""
    if case.variant.kernel in copying:
        return op.copy_bytes(case.workload)
    return 0 if case.role is Role.FLOOR else op.traffic_bytes(case.workload)


def _cost(op: Op, case: Case, nbytes: int, rated: GpuSpec | None) -> LeastWork:
    """The least work of a case; a floor computes nothing, and a precision with unknown peak sets no bound."""
    flops = {} if case.role is Role.FLOOR else op.flops(case.workload)
    peaks = {each: rated.peak_for(each, op.instead) for each in flops} if rated else {}
    peak_us = sum(flops[each] / peak[1] / 1e6 for each, peak in peaks.items() if peak)
    return LeastWork(nbytes, sum(flops.values()), peak_us, nbytes / rated.bandwidth_gbs / 1e3 if rated else 0.0)


def _row_warnings(timing: Timing, low_clock: int) -> tuple[str, ...]:
    warnings = []
    if low_clock:
        warnings.append(f"{low_clock} of {timing.rounds} rounds below {LOW_CLOCK:.0%} of the run's median clock")
    warnings += interval_warnings(timing)
    if abs(timing.mean_us / timing.time_us - 1) > TAIL:
        warnings.append(f"mean {timing.mean_us:.3f} µs, 90th percentile {timing.p90_us:.3f} µs{LONG_TAIL}")
    return tuple(warnings)


def interval_warnings(timing: Timing) -> tuple[str, ...]:
    """Warns of a time whose interval is wide, or that has too few rounds for an interval."""
    if not math.isfinite(timing.relative_half_width):
        return ("too few rounds for an interval",)
    if timing.relative_half_width <= WIDE:
        return ()
    return (f"interval of {half_interval(timing.relative_half_width, '{:.1%}'.format)}",)


def outlier_warnings(case: Case, at: WorkloadTimes, what: str = "processes") -> tuple[str, ...]:
    """Warns of a case whose time differs between processes (`what`), as if its compiler chooses by measuring."""
    at = at.of(case.id)
    if case.id not in at.effects.outliers or case.role in {Role.CONTROL, Role.FLOOR}:
        return ()
    means = process_means(at.effects.without_launch(at.times[case.id]), at.effects.process, at.effects.count)
    return (f"its {what} differ: {np.nanmin(means):.3f} to {np.nanmax(means):.3f} µs",)


def run_warnings(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """Warnings that qualify every comparison of a workload that was reached: a baseline that failed or differs."""
    warnings = []
    for row in rows:
        if row.role is Role.BASELINE and row.status.is_failure and row.status is not Status.NOT_RUN:
            warnings.append(f"{row.case.workload}: {_NO_TIME} ({row.status}), so nothing is compared with it")
        if row.role is Role.CONTROL and row.versus and row.versus.verdict in {Verdict.FASTER, Verdict.SLOWER}:
            apart = abs(row.versus.speedup - 1)
            warnings.append(f"{row.case.workload}: {_APART} {apart:.2%} apart: so much is noise")
    return tuple(warnings)


def is_of_times(warning: str) -> bool:
    """Whether `run_warnings` made a warning, which then holds only for the times known when it was made."""
    return f": {_NO_TIME} (" in warning or f": {_APART} " in warning


def with_clocks(own: Analysis, clocks: Mapping[Clock, Analysis]) -> Analysis:
    """Appends the analyses of the further clocks to the timer's own; each warning names its clock."""
    analyses = list(clocks.values())
    warnings = [f"{clock}: {warning}" for clock, analysis in clocks.items() for warning in analysis.warnings]
    return replace(
        own,
        clocks=tuple(row for analysis in analyses for row in analysis.measurements),
        rounds=(*own.rounds, *(row for analysis in analyses for row in analysis.rounds)),
        warnings=(*own.warnings, *warnings),
    )


def without_verdicts(analysis: Analysis, contradicted: Mapping[str, str]) -> Analysis:
    """Drops all verdicts of the run's own timer if another clock contradicts it, and adds a warning that says why."""
    if not contradicted:
        return analysis
    case_id, why = next(iter(contradicted.items()))
    warning = f"{case_id.partition('/')[0]}: {why}, so nothing is compared"
    rows = tuple(replace(row, versus=None) for row in analysis.measurements)
    return replace(analysis, measurements=rows, warnings=(*analysis.warnings, warning), ratios={})
