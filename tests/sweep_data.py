"""Sweeps made up for the tests: points whose place is known, and what is written of them."""

import math

from decode_workloads import decode_at
from run_data import case, failed, measured, store, versus

from gdnbench.model.declaration import Params
from gdnbench.model.measurement import OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.status import Role, Status
from gdnbench.store.tables import write_sweep

KERNEL = "decode-x"


def label_of(params, kernel=KERNEL):
    return ":".join([kernel, *(f"{name}={value}" for name, value in params.items())])


def point(slower_by, workload=decode_at(), place=None, half=0.002, rounds=48, kernel=KERNEL, **params):  # noqa: B008 - frozen
    """A point so much slower than the best; the best itself at 0."""
    best = slower_by == 0.0
    return Point(
        kernel=kernel,
        label=label_of(params, kernel),
        params=Params(params),
        workload=workload,
        place=place or (Place.BEST if best else Place.SLOWER if slower_by > 0.005 else Place.TIED),
        slower_by=slower_by,
        slower_lo=0.0 if best else max(-1.0, slower_by - half),
        slower_hi=0.0 if best else slower_by + half,
        rounds=rounds,
    )


def plateau_of(points):
    """The plateau of one kernel and workload; its simplest point is the last that ties."""
    tied = [each for each in points if each.place in {Place.BEST, Place.TIED}]
    return Plateau(
        kernel=points[0].kernel,
        workload=points[0].workload,
        best=points[0].label,
        simplest=tied[-1].label,
        tied=tuple(each.label for each in tied),
        unclear=tuple(each.label for each in points if each.place is Place.UNCLEAR),
        within=max(each.slower_hi for each in tied),
    )


def sweep_of(axes, *groups, one_for_all=()):
    """A sweep of groups of points, each of one kernel and workload, fastest first."""
    return Sweep(
        axes=axes,
        budget_s=60.0,
        points=tuple(each for group in groups for each in group),
        plateaus=tuple(plateau_of(group) for group in groups),
        one_for_all=tuple(one_for_all),
    )


SMALL, LARGE = decode_at(B=1), decode_at(B=64)
JOINT = sweep_of(
    {KERNEL: {"BV": [4, 8, 16], "WARPS": [2, 4]}},
    [
        point(0.0, SMALL, BV=16, WARPS=4),
        point(0.001, SMALL, BV=8, WARPS=4),
        point(0.004, SMALL, Place.UNCLEAR, BV=8, WARPS=2),
        point(0.02, SMALL, BV=4, WARPS=4, rounds=7, half=0.01),
        point(0.31, SMALL, Place.SLOWER, BV=4, WARPS=2, rounds=2, half=math.inf),
    ],
    [
        point(0.0, LARGE, BV=8, WARPS=2),
        point(0.07, LARGE, BV=16, WARPS=4, rounds=7),
        point(0.6, LARGE, BV=4, WARPS=2, rounds=7),
    ],
    one_for_all=[OneForAll(kernel=KERNEL, label=label_of({"BV": 8, "WARPS": 2}), regret={SMALL: 0.004, LARGE: 0.0})],
)  # fmt: skip


def store_sweep(folder, sweep, *, without=(), **more):
    """Writes a sweep's run: a row for each point, the baseline's, and one for each of `without`, which failed."""
    rows = []
    for workload in dict.fromkeys(each.workload for each in sweep.points) or [SMALL]:
        rows.append(measured(case(KERNEL, Role.BASELINE, workload), 5.0))
        rows.append(measured(case(KERNEL, Role.CONTROL, workload), 5.0, versus(1.0002, "same")))
    rows += [
        measured(
            case(each.label, workload=each.workload, kernel=each.kernel, **each.params),
            4.0 * (1 + each.slower_by),
            versus(1.25 / (1 + each.slower_by)),
        )
        for each in sweep.points
    ]
    rows += [
        failed(case(label_of(params), workload=SMALL, **params), Status.BUILD_FAILED, "no [room] for it\nmore of that")
        for params in without
    ]
    swept = {kernel: list(axes) for kernel, axes in sweep.axes.items()}
    store(folder, rows, swept=swept, **more)
    write_sweep(folder, sweep)
    return rows
