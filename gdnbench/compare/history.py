"""One kernel's time at one workload over stored runs, and its steps. Pure functions of what was stored.

A step is judged as `compare` judges two runs: by the change of the kernel's time, less the change of unchanged cases of
other kernels, since a process and a host add a launch of their own (`compare.run_change`). The kernel's ratio to an
anchor of the same rounds is shown beside it: the floor that copies the state, or else the baseline.

`choose_label`, `choose_op`, `choose_gpu` and `check_workloads` resolve what a user named among the stored runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from gdnbench.catalog.entry import label_parts
from gdnbench.compare.conditions import ConditionChange, changes_between, same_method
from gdnbench.compare.figure import Figure
from gdnbench.compare.run_change import RunPair, TimeKind
from gdnbench.compare.runs import StoredRun
from gdnbench.compare.within_run import ratio_within_run
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.gpu import CPU, gpu_slug
from gdnbench.model.op import DEFAULT_SUITE, Op
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats.comparison import Comparison, Verdict, judge
from gdnbench.stats.interval import Interval
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.wording import did_you_mean, first_of

DEFAULT_STEP_MARGIN = 0.01
"""One percent: ratios at batch 1 repeat that closely."""

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """The kernel in one run.

    Attributes:
        ratio: kernel time / anchor time, paired by round; None where either has no rounds.
        changes: what else changed since the row before, by name.
        since: the run that `change` is against: the last before it that was measured the same way; empty if there is
            none.
        change: the time before / the time now, above 1 is faster; None without a run to compare with.
        kind: the kind of times of the change.
        scatter: as in `History`, of the two runs.
        causes: what else changed since the run `since`, which need not be the row before.
    """

    run: StoredRun
    figure: Figure
    ratio: Interval | None = None
    changes: Mapping[str, ConditionChange] = field(default_factory=dict)
    since: str = ""
    change: Comparison | None = None
    kind: TimeKind = TimeKind.STREAM
    scatter: float = float("nan")
    causes: Mapping[str, ConditionChange] = field(default_factory=dict)

    @property
    def is_step(self) -> bool:
        """Whether the interval of the change lies wholly beyond the margin."""
        return self.change is not None and self.change.verdict in {Verdict.FASTER, Verdict.SLOWER}


@dataclass(frozen=True, kw_only=True)
class History:
    """A kernel at one workload on one GPU model, oldest run first.

    Attributes:
        gpu: the GPU's short name.
        anchor: label of the case that ratios are taken to; empty if no run has one.
        scatter: relative standard deviation of one run's time where nothing changed, without the change of the whole
            run; NaN if no two runs could be compared.
        margin: changes up to this ratio are not steps.
    """

    label: str
    gpu: str
    workload: Workload
    anchor: str
    scatter: float
    margin: float
    rows: tuple[HistoryRow, ...]

    @property
    def largest_step(self) -> HistoryRow | None:
        """Returns the row of the largest step, faster or slower, or None."""
        steps = [row for row in self.rows if row.is_step and row.change]
        return max(steps, key=lambda row: abs(np.log(row.change.speedup.estimate)) if row.change else 0.0, default=None)


def history_of(
    runs: Sequence[StoredRun], label: str, workload: Workload, *, gpu: str, margin: float = DEFAULT_STEP_MARGIN
) -> History:
    """The history of a kernel at one workload over runs of one GPU model, oldest first; see `History`."""
    having = [(run, figure) for run in runs if (figure := _find(run, label, workload))]
    anchor = _choose_anchor([run for run, _ in having], label, workload)
    rows: list[HistoryRow] = []
    for run, figure in having:
        rows.append(_row(run, figure, rows, anchor, margin))
    scatters = [row.scatter for row in rows if not math.isnan(row.scatter)]
    scatter = median(scatters) if scatters else math.nan
    return History(
        label=label, gpu=gpu, workload=workload, anchor=anchor, scatter=scatter, margin=margin, rows=tuple(rows)
    )


def _row(run: StoredRun, figure: Figure, earlier: list[HistoryRow], anchor: str, margin: float) -> HistoryRow:
    paired = _paired(run, figure, anchor)
    changes = {}
    if earlier:
        last = earlier[-1]
        changes = changes_between((last.run, last.figure), (run, figure), anchor)
    if paired is None:
        return HistoryRow(run=run, figure=figure, changes=changes)
    row = HistoryRow(run=run, figure=figure, changes=changes, ratio=paired.speedup(CONFIDENCE))
    peer = next(
        (each for each in reversed(earlier) if each.ratio and same_method(each.run, each.figure, run, figure)), None
    )
    return _with_change(row, peer, anchor, margin) if peer else row


def _with_change(row: HistoryRow, peer: HistoryRow, anchor: str, margin: float) -> HistoryRow:
    runs = RunPair(peer.run.source, row.run.source)
    kind = runs.kind_of(peer.figure, row.figure)
    change = runs.change(peer.figure, row.figure, kind)
    assert change  # both rows have a ratio, and so rounds
    speedup = change.log_ratio.speedup(CONFIDENCE)
    return replace(
        row,
        since=peer.run.source.name,
        change=Comparison(speedup, judge(speedup, margin)),
        kind=kind,
        # The components after those of the rounds are those of a difference of two runs.
        scatter=math.sqrt(sum(part.value for part in change.log_ratio.components[2:]) / 2.0),
        causes=changes_between((peer.run, peer.figure), (row.run, row.figure), anchor),
    )


def _paired(run: StoredRun, figure: Figure, anchor: str) -> PairedLogRatio | None:
    """log(kernel / anchor) over the rounds that both have."""
    other = _find(run, anchor, figure.workload)
    if other is None or not figure.rounds_us.size or figure.rounds_us.shape != other.rounds_us.shape:
        return None
    paired = ratio_within_run(run.source, [figure], [other])
    return paired if paired.n else None


def _find(run: StoredRun, label: str, workload: Workload) -> Figure | None:
    return next((each for each in run.figures if each.label == label and each.workload == workload), None)


def _choose_anchor(runs: Sequence[StoredRun], label: str, workload: Workload) -> str:
    """The copying floor if it is in at least half as many runs as the baseline; else the most frequent baseline.

    An empty floor moves no bytes: it follows the launch but not the memory, and so cancels less.
    """
    here = [each for run in runs for each in run.figures if each.workload == workload and each.rounds_us.size]
    here = [each for each in here if each.label != label]
    floors = Counter(each.label for each in here if each.role is Role.FLOOR and each.nbytes > 0)
    baselines = Counter(each.label for each in here if each.role is Role.BASELINE)
    (floor, with_floor), (baseline, with_baseline) = (_most_common(floors), _most_common(baselines))
    return floor if 2 * with_floor >= with_baseline else baseline


def _most_common(labels: Counter[str]) -> tuple[str, int]:
    return labels.most_common(1)[0] if labels else ("", 0)


def choose_label(runs: Sequence[StoredRun], wanted: str) -> str:
    """The label as the runs spell it; `wanted` may have its params in another order.

    UnknownNameError is raised if no run has it; the hint has the nearest labels.
    """
    labels = list(dict.fromkeys(figure.label for run in reversed(runs) for figure in run.figures))
    if wanted in labels:
        return wanted
    for label in labels:
        if _parts(label) == _parts(wanted):
            return label
    plain = [label for label in labels if ":" not in label]
    hint = did_you_mean(wanted, labels, f"there are {first_of(sorted(plain or labels))}")
    raise UnknownNameError(f"no stored run has the kernel {wanted}", hint)


def choose_op(runs: Sequence[StoredRun], label: str) -> str:
    """The op whose runs have a label; UsageError if runs of several ops have it."""
    having = list(dict.fromkeys(run.op for run in runs if any(figure.label == label for figure in run.figures)))
    if len(having) > 1:
        raise UsageError(f"runs of {' and '.join(having)} have {label}", f"say which with --op: {' or '.join(having)}")
    return having[0]


def choose_gpu(runs: Sequence[StoredRun], label: str, wanted: str) -> str:
    """The GPU model to show: that named, or that of the latest run that timed the kernel on a GPU.

    Without such a run, it is that of the latest run that timed the kernel, or else of the latest run that has it.
    UnknownNameError is raised if no run on that GPU has the kernel; the hint has the GPUs whose runs do.
    """
    having = [run.source.gpu for run in runs if any(figure.label == label for figure in run.figures)]
    if wanted in ("", "auto"):
        timed = [
            run.source.gpu for run in runs if any(figure.label == label and figure.has_time for figure in run.figures)
        ]
        return next((gpu for gpu in reversed(timed) if gpu != CPU), (timed or having)[-1])
    slug = wanted.lower() if wanted.lower() in having else gpu_slug(wanted)
    if slug not in having:
        known = ", ".join(dict.fromkeys(having))
        raise UnknownNameError(f"no stored run has {label} on {wanted}", f"there are runs of it on {known}")
    return slug


def other_gpus(runs: Sequence[StoredRun], label: str, chosen: str) -> dict[str, int]:
    """The other GPU models on which runs timed the kernel, with their number of runs, the most first."""
    timed = Counter(
        run.source.gpu for run in runs if any(figure.label == label and figure.has_time for figure in run.figures)
    )
    return {gpu: count for gpu, count in timed.most_common() if gpu not in {chosen, CPU}}


def check_workloads(runs: Sequence[StoredRun], label: str, gpu: str, workloads: Iterable[Workload]) -> None:
    """Raises UnknownNameError for the first workload at which no run has the kernel; the hint has the known ones."""
    known = sorted(_known_workloads(runs, label, gpu))
    for workload in workloads:
        if workload not in known:
            have = first_of([str(each) for each in known])
            raise UnknownNameError(f"no stored run has {label} at {workload} on {gpu}", f"there are {have}")


def usual_workloads(runs: Sequence[StoredRun], label: str, gpu: str, op: Op) -> tuple[Workload, ...]:
    """The workloads of the op's default suite at which some run has the kernel; all of the suite if none has.

    By default, workloads that were never measured are left out. A kernel without a time at any of them, as one that
    does not support them, is shown at those of the first suite where it has a time, and with inputs of the op's first
    profile where it has none of the default one.
    """
    default, known = op.suite(DEFAULT_SUITE).workloads, _known_workloads(runs, label, gpu)
    timed = {figure.workload for figure in _figures(runs, label, gpu) if figure.has_time}
    for profile in dict.fromkeys((op.profile, "")):
        for suite in (DEFAULT_SUITE, *op.suites):
            workloads = tuple(workload.at(profile) for workload in op.suite(suite).workloads)
            if not timed.isdisjoint(workloads):
                return tuple(workload for workload in workloads if workload in known)
    return tuple(workload for workload in default if workload in known) or default


def _known_workloads(runs: Sequence[StoredRun], label: str, gpu: str) -> set[Workload]:
    return {figure.workload for figure in _figures(runs, label, gpu)}


def _figures(runs: Sequence[StoredRun], label: str, gpu: str) -> list[Figure]:
    return [figure for run in of_gpu(runs, gpu) for figure in run.figures if figure.label == label]


def check_margin(margin: float) -> None:
    """Raises UsageError unless the margin is at least 0 and below 1."""
    if not 0 <= margin < 1:
        raise UsageError(f"--margin {margin}: a margin lies between 0 and 1", "0.01 is one percent")


def of_op(runs: Sequence[StoredRun], op: str) -> list[StoredRun]:
    """The runs of one op."""
    return [run for run in runs if run.op == op]


def with_axes_of(runs: Sequence[StoredRun], op: Op) -> list[StoredRun]:
    """The op's runs at workloads of its present axes: axes that a run lacks have their defaults."""
    return [replace(run, source=run.source.with_axes_of(op.name, op.workloads)) for run in runs]


def of_gpu(runs: Sequence[StoredRun], gpu: str) -> list[StoredRun]:
    """The runs on one GPU model."""
    return [run for run in runs if run.source.gpu == gpu]


def _parts(label: str) -> tuple[str, frozenset[str]]:
    name, settings = label_parts(label)
    return name, frozenset(settings)
