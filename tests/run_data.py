"""Runs made up for the tests: cases, measurements and samples whose medians are known."""

import numpy as np
from decode_workloads import decode_at

from gdnbench.analyse.rounds import Collected
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.measurement import Measurement, Timing, Versus
from gdnbench.model.status import Role, Status
from gdnbench.store.info import RunInfo, write_info
from gdnbench.store.journal import Examined, Sampled
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import RoundRow, RoundSamples, write_rounds, write_samples

TICK_US = 0.032
WORKLOAD = decode_at()


class Events(list):
    """A channel that keeps what a worker sends."""

    send = list.append


def case(label, role=Role.KERNEL, workload=WORKLOAD, *, kernel="", preset="", **params):
    variant = Variant(kernel or label.partition(":")[0], label, preset=preset, params=Params(params))
    return Case(variant, workload, role)


def timing(time_us=4.0, **more):
    values = {
        "timer": "nvbench", "samples": 10_500, "rounds": 21, "time_us": time_us, "time_lo_us": 0.999 * time_us,
        "time_hi_us": 1.001 * time_us, "median_us": time_us, "min_us": 0.9 * time_us, "p10_us": 0.95 * time_us,
        "p90_us": 1.1 * time_us, "noise": 0.0123, "cpu_time_us": 21.5, "sm_mhz": 1980.0,
        "bandwidth_gbs": 1055 / time_us, "sol": 4.0 / time_us,
    }  # fmt: skip
    return Timing(**{**values, **more})


def versus(speedup=1.1, verdict="faster", **more):
    values = {"baseline": "decode-fla", "speedup": speedup, "low": 0.999 * speedup, "high": 1.001 * speedup}
    return Versus(**{**values, "verdict": verdict, **more})


def measured(of, time_us=4.0, against=None, **more):
    return Measurement(
        case=of, status=Status.OK, timing=timing(time_us), versus=against, nbytes=1_054_816, launches=1, **more
    )


def failed(of, status=Status.CRASHED, reason="the process died"):
    return Measurement(case=of, status=status, reason=reason, nbytes=1_054_816)


def info(**more):
    values = {
        "run_id": "20260102-030405-h200-decode",
        "timestamp": "2026-01-02T03:04:05+00:00",
        "complete": True,
        "command": "gdnbench run",
        "op": "decode",
        "gpu": "h200",
        "baseline": "decode-fla",
        "settings": {"rounds": 21, "samples": 500, "seed": 1, "margin": 0.005, "confidence": 0.95, "step_limit_s": 30},
        "machine": {"gpu": {"name": "NVIDIA H200"}},
    }
    return RunInfo(**{**values, **more})


def store(folder, rows, **more):
    """Writes a run's description and its rows, which belong together."""
    described = info(cases=[row.case.to_dict() for row in rows], **more)
    write_info(folder, described)
    write_measurements(folder, described, rows)


def ticked(median_us, samples, random):
    """Samples about a median, in ticks, with a slow outlier."""
    times = random.normal(median_us, 0.02 * median_us, samples)
    times[-1] = 3 * median_us
    return tuple((np.rint(times / TICK_US) * TICK_US).tolist())


def collect(medians_us, rounds=8, samples=200, *, clock=1980.0, round_sd=0.0005):
    """Samples of every case in every round; a round's level is shared by all of its cases, as on a GPU."""
    random = np.random.default_rng(1)
    collected = Collected()
    for number in range(1, rounds + 1):
        level = random.normal(1.0, 0.003)
        for case_id, median_us in medians_us.items():
            own = median_us * level * random.normal(1.0, round_sd)
            collected.take(Sampled(number, case_id, ticked(own, samples, random), (clock,) * samples))
    return collected


def round_rows(run_id, of, rounds, *, timer="nvbench", samples=20, of_process=1000, sm_mhz=1980.0):
    """The rounds of a case, each a time or those of its samples; a process has so many of them."""
    return [
        RoundRow(
            run_id=run_id, case=of, timer=timer, round=at + 1, process=at // of_process + 1, samples=samples,
            sm_mhz=sm_mhz, low_clock=False, time_us=float(np.mean(found)), mean_us=float(np.mean(found)),
            median_us=float(np.median(found)),
        )
        for at, found in enumerate(rounds)
    ]  # fmt: skip


def store_times(folder, run_id, rows, spread, count, rounds=8):
    """Writes rounds and samples about the times of rows; `spread` makes factors of normal numbers."""
    random, kept, by_timer = np.random.default_rng(1), [], {}
    for row in rows:
        times = [row.timing.time_us * spread(random.normal(size=count)) for _ in range(rounds)]
        kept += round_rows(run_id, row.case.id, times, timer=row.timing.timer, samples=count)
        columns = by_timer.setdefault(row.timing.timer, [])
        columns += [RoundSamples(row.case.id, number, found) for number, found in enumerate(times, 1)]
    for timer, columns in by_timer.items():
        write_samples(folder, columns, None if timer == "nvbench" else timer)
    write_rounds(folder, kept)


def healthy(cases):
    return {each.id: Examined(each.id, Status.OK, launches=1, warm_us=3.0) for each in cases}


def bound_by_flops(of, time_us, tflops, sol, against=None):
    """A kernel at a workload whose FLOPs take longer than copying."""
    known = timing(time_us, tflops=tflops, bound="flops", sol=sol)
    return Measurement(case=of, status=Status.OK, timing=known, versus=against, nbytes=1_054_816, launches=1)


def store_bound_by_flops(folder):
    """A run at two workloads: copying bounds the small one, FLOPs the large one, where every time is above 10 ms."""
    large = decode_at(B=256, HQ=16, HV=32)
    rows = [
        measured(case("decode-fla", Role.BASELINE), 5.13),
        measured(case("decode-v4"), 4.321, versus(1.187)),
        measured(case("decode-floor-copy", Role.FLOOR), 4.01),
        bound_by_flops(case("decode-fla", Role.BASELINE, large), 20_345.6, 41.26, 0.417),
        bound_by_flops(case("decode-v4", workload=large), 12_345.6, 68.0, 0.687, versus(1.648)),
        measured(case("decode-floor-copy", Role.FLOOR, large), 10_001.0),
    ]
    store(folder, rows)
    return folder
