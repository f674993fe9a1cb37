"""Chooses the kernels and workloads of a chart: the requested ones, else those that readers look for first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from gdnbench.errors import UnknownNameError
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.render.units import half_text, time_text
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.measurements import read_by_clock
from gdnbench.wording import did_you_mean

FASTEST = 5
COLOURS = 9  # slots, as many as a theme has colours
MOST = 8  # lines that a reader can still tell apart


@dataclass(frozen=True, kw_only=True)
class KernelChoice:
    """One kernel of a run: if charts show it first (`chosen`), and its colour (`slot`) unless another kernel has it."""

    label: str
    chosen: bool
    baseline: bool
    slot: int


def chosen_rows(folder: Path, kernels: str = "") -> list[Measurement]:
    """Reads the times of kernels: by CUPTI where the run has any, else by its own timer.

    By default the kernels are the baseline, the floors and the fastest.
    """
    info, measured = read_info(folder), read_by_clock(folder)
    by_clock = {
        clock: [row for row in rows if row.role is not Role.CONTROL and math.isfinite(time_us(row))]
        for clock, rows in measured.items()
    }
    rows = by_clock.get("cupti") or by_clock.get(None, [])
    if not rows:
        raise UnknownNameError(f"{info.run_id} has no times to draw", f"gdnbench show {info.run_id} says why")
    labels = _named(info, rows, kernels) if kernels else _default_labels(rows)
    return [row for row in rows if row.case.label in labels]


def timed(rows: Iterable[Measurement]) -> list[Measurement]:
    """Returns the rows with a time, fastest first, without the baseline's control."""
    shown = [row for row in rows if row.timing and row.role is not Role.CONTROL]
    return sorted(shown, key=time_us)


def time_us(row: Measurement) -> float:
    """Returns the time of a row in microseconds; NaN without one."""
    return row.timing.time_us if row.timing else math.nan


def interval_text(row: Measurement) -> str:
    """Returns time and half width in one text, `4.348 ±0.08%`; empty without a time."""
    timing = row.timing
    return f"{time_text(timing.time_us)} {half_text(timing.relative_half_width)}" if timing else ""


def kind_of(rows: Sequence[Measurement]) -> str:
    """Returns what the times of some rows are: `kernel time` by CUPTI, `stream time` by NVBench, `CPU time`."""
    if any(row.timing and row.timing.timer == "cpu" for row in rows):
        return "CPU time"
    return "kernel time" if any(row.clock == "cupti" for row in rows) else "stream time"


def in_order(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """Returns each workload once, by series, within one by size along the x axis."""
    return tuple(sorted(set(workloads), key=_by_series))


def _by_series(workload: Workload) -> tuple[tuple[int, ...], Workload]:
    return tuple(size for name, size in workload.axes.items() if name != workload.spec.x), workload


def workload_slug(workload: Workload) -> str:
    """Returns a workload as part of an id, `b1-qk4-v8`."""
    return workload.slug.lower().replace("_", "-")


def choices_of(rows: Sequence[Measurement], baseline: str) -> tuple[KernelChoice, ...]:
    """Returns every kernel with a time; chooses the baseline, the fastest of each workload, then each kernel's best."""
    racing = [row for row in timed(rows) if row.role.does_the_work]
    labels = list(dict.fromkeys(row.case.label for row in racing))
    workloads = list(dict.fromkeys(row.case.workload for row in racing))
    first = [next(row.case.label for row in racing if row.case.workload == workload) for workload in workloads]
    ordered = sorted(labels, key=lambda label: _slowness(label, racing, workloads))
    wanted = dict.fromkeys([*filter(labels.__contains__, [baseline]), *first, *_one_a_kernel(ordered, racing)])
    chosen = set(list(wanted)[:MOST])
    ranked = sorted((label for label in ordered if label != baseline), key=lambda label: label not in chosen)
    slots = {label: rank % COLOURS for rank, label in enumerate(ranked)}
    return tuple(
        KernelChoice(label=label, chosen=label in chosen, baseline=label == baseline, slot=slots.get(label, -1))
        for label in ordered
    )


def slots_of(shown: Sequence[KernelChoice]) -> list[str]:
    """Returns labels by slot, empty if free, then the baseline; for a taken slot the first free, as in `pickers.js`."""
    slots: list[str] = []
    for choice in sorted(shown, key=lambda choice: not choice.chosen):
        if not choice.baseline:
            slots += [""] * (choice.slot + 1 - len(slots))
            at = choice.slot if not slots[choice.slot] else [*slots, ""].index("")
            slots[at : at + 1] = [choice.label]
    return slots + [choice.label for choice in shown if choice.baseline]


def _slowness(label: str, rows: Sequence[Measurement], workloads: Sequence[Workload]) -> float:
    """Returns the mean logarithm of a kernel's time over the fastest's; kernels that lack a workload come last."""
    logs = []
    for workload in workloads:
        times = {row.case.label: time_us(row) for row in rows if row.case.workload == workload}
        if label in times:
            logs.append(math.log(times[label] / min(times.values())))
    return sum(logs) / len(logs) + 100.0 * (len(workloads) - len(logs))


def _one_a_kernel(ordered: Sequence[str], rows: Sequence[Measurement]) -> list[str]:
    kernels = {row.case.label: row.case.variant.kernel for row in rows}
    return list({kernels[label]: label for label in reversed(ordered)}.values())[::-1]


def _named(info: RunInfo, rows: Sequence[Measurement], kernels: str) -> tuple[str, ...]:
    labels = list(dict.fromkeys(row.case.label for row in rows))
    chosen: dict[str, None] = {}
    for term in filter(None, (term.strip() for term in kernels.split(","))):
        matches = [label for label in labels if term == "all" or fnmatchcase(label, term)]
        if not matches:
            hint = did_you_mean(term, labels, f"there are {', '.join(labels[:12])}", cutoff=0.5)
            raise UnknownNameError(f"{info.run_id} has no times of {term}", hint)
        chosen.update(dict.fromkeys(matches))
    if not chosen:
        raise UnknownNameError("no kernel was named", "leave --kernel out for the fastest few")
    return tuple(chosen)


def _default_labels(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """Returns the baseline, the floors, and the fastest by geometric mean over all workloads."""
    chosen = [row.case.label for row in rows if row.role in {Role.BASELINE, Role.FLOOR}]
    logs: dict[str, list[float]] = {}
    for row in rows:
        if row.case.label not in chosen:
            logs.setdefault(row.case.label, []).append(math.log(time_us(row)))
    most = max(map(len, logs.values()), default=0)
    whole = [label for label, times in logs.items() if len(times) == most]
    fastest = sorted(whole, key=lambda label: sum(logs[label]))[:FASTEST]
    return tuple(dict.fromkeys([*chosen, *fastest]))
