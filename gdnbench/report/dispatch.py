"""Formats the best point of each workload to paste into a kernel's declaration or a dispatcher's table."""

from __future__ import annotations

import json

from gdnbench.errors import UsageError
from gdnbench.model.sweep import Place, Plateau, Point, Sweep
from gdnbench.model.workload import Workload, label_slug
from gdnbench.report.phrases import params_text
from gdnbench.store.info import RunInfo


def dispatch_text(info: RunInfo, sweep: Sweep) -> str:
    """Returns the best point of each workload, and the run that found it; raises UsageError if no point has a time.

    If several kernels raced it is TOML for `dispatch.toml`: a table per head layout, with the kernels that tie or may
    tie in a comment. For one kernel, or a floor, which no dispatcher picks, it is Python for the kernel's `variant.py`.
    """
    if not sweep.plateaus:
        raise UsageError(f"no point of {info.run_id} has a time", f"gdnbench show {info.run_id} says why")
    if sweep.finals:
        return _dispatcher_table(info, sweep)
    kernels = dict.fromkeys(plateau.kernel for plateau in sweep.plateaus)
    return "\n".join(_declaration(info, sweep, kernel) for kernel in kernels)


def _declaration(info: RunInfo, sweep: Sweep, kernel: str) -> str:
    plateaus = [plateau for plateau in sweep.plateaus if plateau.kernel == kernel]
    name = (info.machine.get("gpu") or {}).get("name", info.gpu)
    lines = [f"    # {kernel} on {name}: {info.run_id}", "    by_shape={"]
    points = {plateau.workload: _params(sweep, plateau) for plateau in plateaus}
    lines += [f"        {_partial(workload)}: {params}," for workload, params in _needed(points).items()]
    lines += ["    },"]
    for one in sweep.one_for_all:
        if one.kernel == kernel:
            workload, worst = one.worst
            params = params_text(
                next(point.params for point in sweep.points if point.label == one.label), [*sweep.axes[kernel]]
            )
            lines += [
                f"    # or for every shape {params}: at most {worst:.1%} slower ({workload}), {one.mean:.1%} on average"
            ]
    return "\n".join(lines)


def _needed(points: dict[Workload, str]) -> dict[Workload, str]:
    """Drops workloads between two with the same point: a kernel takes the point of the nearest workload."""
    workloads = sorted(points, key=lambda workload: (workload.size, workload))
    neighbours = zip([None, *workloads], workloads, [*workloads[1:], None], strict=False)
    return {
        workload: points[workload]
        for before, workload, after in neighbours
        if before is None or after is None or not points[before] == points[workload] == points[after]
    }


def _params(sweep: Sweep, plateau: Plateau) -> str:
    point = sweep.point(plateau, plateau.simplest)
    return "{" + ", ".join(f'"{name}": {json.dumps(value)}' for name, value in point.params.items()) + "}"


def _partial(workload: Workload) -> str:
    usual = workload.spec.default.sizes
    told = {name: size for name, size in workload.sizes.items() if name == workload.spec.x or size != usual[name]}
    return f"Shape({', '.join(f'{name}={size}' for name, size in told.items())})"


def _dispatcher_table(info: RunInfo, sweep: Sweep) -> str:
    groups: dict[str, list[Workload]] = {}
    for workload in sorted({point.workload for point in sweep.finals}):
        groups.setdefault(workload.series, []).append(workload)
    return "\n\n".join(_series_table(info, sweep, series, workloads) for series, workloads in groups.items())


def _series_table(info: RunInfo, sweep: Sweep, series: str, workloads: list[Workload]) -> str:
    name = label_slug(series)
    lines = [f"[{info.gpu}.{name}]" if name else f"[{info.gpu}]", f"source = {json.dumps(info.run_id)}"]
    for workload in workloads:
        best, *others = sweep.final(workload)
        lines.append(f"{workload.x_slug} = {_row(best)}{_remark(others)}")
    return "\n".join(lines)


def _row(best: Point) -> str:
    cells = {"kernel": best.kernel, **best.params}
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in cells.items()) + " }"


def _remark(others: list[Point]) -> str:
    words = {Place.TIED: "ties", Place.UNCLEAR: "may tie"}
    told = [f"{other.kernel} {words[other.place]}" for other in others if other.place in words]
    return f"  # {', '.join(told)}" if told else ""
