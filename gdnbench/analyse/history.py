"""One kernel's time at one workload over stored runs, and its steps, judged as `compare` judges two runs.

The kernel's ratio to an anchor of the same rounds is shown beside it: the floor that copies the state, or else the
baseline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np

from gdnbench.analyse.comparison import ConditionChange, changes_between, method_of
from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.analyse.ratio import ratio_within_run
from gdnbench.analyse.run_change import RunPair, TimeKind
from gdnbench.analyse.runs import StoredCase, StoredRun
from gdnbench.catalog.entry import label_parts
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.gpu import CPU, gpu_slug
from gdnbench.model.op import DEFAULT_SUITE, Op
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats.interval import Comparison, Interval, Verdict, judge
from gdnbench.store.find import readable
from gdnbench.wording import did_you_mean, first_of, natural_key

CONFIDENCE = 0.95


def _find(source: FigureSource, label: str, workload: Workload) -> Figure:
    return next(each for each in source.figures if each.label == label and each.workload == workload)


def _ratio(source: FigureSource, figure: Figure, anchor: str) -> Interval | None:
    other = next((each for each in source.figures if (each.label, each.workload) == (anchor, figure.workload)), None)
    if other is None or not figure.rounds_us.size or figure.rounds_us.shape != other.rounds_us.shape:
        return None
    paired = ratio_within_run(source, [figure], [other])
    return paired.speedup(CONFIDENCE) if paired.n else None


DEFAULT_STEP_MARGIN = 0.01  # one percent: ratios at batch 1 repeat that closely


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """The kernel in one run.

    `ratio` is kernel time / anchor time, paired by round. `since` is the last run before that was measured the same
    way, empty if there is none; `change` the time before / the time now.
    """

    run: StoredRun
    figure: Figure
    ratio: Interval | None = None
    changes: Mapping[str, ConditionChange] = field(default_factory=dict)
    since: str = ""
    change: Comparison | None = None
    kind: TimeKind = TimeKind.STREAM

    @property
    def is_step(self) -> bool:
        """Whether the interval of the change lies wholly beyond the margin."""
        return self.change is not None and self.change.verdict in {Verdict.FASTER, Verdict.SLOWER}


@dataclass(frozen=True)
class History:
    """A kernel at one workload on one GPU model, oldest run first; `left_out` older runs have no row.

    `anchor` is the label of the case that ratios are taken to, empty if no run has one.
    """

    label: str
    gpu: str
    workload: Workload
    anchor: str
    margin: float
    rows: tuple[HistoryRow, ...]
    left_out: int = 0

    @property
    def largest_step(self) -> HistoryRow | None:
        """Returns the row of the largest step, faster or slower, or None."""
        steps = [row for row in self.rows if row.is_step and row.change]
        return max(steps, key=lambda row: abs(np.log(row.change.speedup.estimate)) if row.change else 0.0, default=None)


def history_of(
    runs: Sequence[StoredRun],
    label: str,
    workload: Workload,
    *,
    gpu: str,
    margin: float = DEFAULT_STEP_MARGIN,
    newest: int | None = None,
) -> History:
    """The history of a kernel at a workload over runs of one GPU model, oldest first; rows for the `newest` runs."""
    having = _without_damaged([(run, case) for run in runs if (case := run.case(label, workload))], newest)
    anchor = _choose_anchor([run for run, _ in having], label, workload)
    followed = _Followed(having, label, workload, anchor)
    first = 0 if newest is None else max(len(having) - newest, 0)
    rows = [followed.row(place, margin) for place in range(first, len(having))]
    return History(label, gpu, workload, anchor, margin, tuple(rows), first)


def _without_damaged(
    having: Sequence[tuple[StoredRun, StoredCase]], newest: int | None
) -> list[tuple[StoredRun, StoredCase]]:
    """Leaves out those of the newest runs whose rounds cannot be read, with a warning; older ones are not tried."""
    older = having[: max(len(having) - newest, 0)] if newest is not None else []
    sources = {run.folder: run for run, _ in having[len(older) :]}
    whole = {source.name for source in readable(sources, lambda folder: sources[folder].source)}
    return [*older, *(each for each in having[len(older) :] if each[0].name in whole)]


class _Followed:
    """The runs that have a kernel at a workload, oldest first; what rows need of them is read on demand."""

    def __init__(
        self, having: Sequence[tuple[StoredRun, StoredCase]], label: str, workload: Workload, anchor: str
    ) -> None:
        self._having, self._label, self._workload, self._anchor = having, label, workload, anchor
        self._read: dict[int, tuple[Figure, Interval | None]] = {}

    def row(self, place: int, margin: float) -> HistoryRow:
        run, case = self._having[place]
        figure, ratio = self._in_run(place)
        changes = self._changes(place) if place else {}
        row = HistoryRow(run=run, figure=figure, ratio=ratio, changes=changes)
        method = method_of(run, case)  # of another method a change may be the method's
        peers = (each for each in reversed(range(place)) if method_of(*self._having[each]) == method)
        peer = next((each for each in peers if self._in_run(each)[1]), None) if ratio else None
        if peer is None:
            return row
        before = self._having[peer][0]
        runs, old = RunPair(before.source, run.source), self._in_run(peer)[0]
        kind = runs.kind_of(old, figure)
        change = runs.change(old, figure, kind)
        assert change  # both have rounds
        speedup = change.speedup(CONFIDENCE)
        return replace(row, since=before.name, change=Comparison(speedup, judge(speedup, margin)), kind=kind)

    def _changes(self, place: int) -> dict[str, ConditionChange]:
        old, new = ((self._having[each][0], self._in_run(each)[0]) for each in (place - 1, place))
        return changes_between(old, new, self._anchor)

    def _in_run(self, place: int) -> tuple[Figure, Interval | None]:
        """The kernel's figure in a run, and its ratio to the anchor, None without common rounds."""
        if place not in self._read:
            source = self._having[place][0].source
            figure = _find(source, self._label, self._workload)
            self._read[place] = figure, _ratio(source, figure, self._anchor)
        return self._read[place]


def _choose_anchor(runs: Sequence[StoredRun], label: str, workload: Workload) -> str:
    """The copying floor if it is in at least half as many runs as the baseline; else the most frequent baseline."""
    floors, baselines = Counter[str](), Counter[str]()
    for run in runs:
        for each in run.cases.every:
            if each.has_time and each.workload == workload and each.label != label:
                floors[each.label] += each.role is Role.FLOOR and each.moves_bytes
                baselines[each.label] += each.role is Role.BASELINE
    (floor, with_floor), (baseline, with_baseline) = (
        max(((label, count) for label, count in labels.items() if count), key=itemgetter(1), default=("", 0))
        for labels in (floors, baselines)
    )
    return floor if 2 * with_floor >= with_baseline else baseline


def choose_label(runs: Sequence[StoredRun], wanted: str) -> str:
    """The label as the runs spell it; `wanted` may have its params in another order. UnknownNameError without any."""
    labels = list(dict.fromkeys(label for run in reversed(runs) for label in run.cases.by_label))
    if wanted in labels:
        return wanted
    name, settings = label_parts(wanted)
    for label in labels:
        if (own := label_parts(label))[0] == name and {*own[1]} == {*settings}:
            return label
    plain = [label for label in labels if ":" not in label]
    hint = did_you_mean(wanted, labels, f"there are {first_of(sorted(plain or labels, key=natural_key))}")
    raise UnknownNameError(f"no stored run has the kernel {wanted}", hint)


def choose_op(runs: Sequence[StoredRun], label: str) -> str:
    """The op whose runs have a label; UsageError if runs of several ops have it."""
    having = list(dict.fromkeys(run.op for run in runs if label in run.cases.by_label))
    if len(having) > 1:
        raise UsageError(f"runs of {' and '.join(having)} have {label}", f"say which with --op: {' or '.join(having)}")
    return having[0]


def choose_gpu(runs: Sequence[StoredRun], label: str, wanted: str) -> str:
    """The GPU model to show: that named, or UnknownNameError; else that of the latest run that timed the kernel."""
    having = [run.gpu for run in runs if label in run.cases.by_label]
    if wanted in ("", "auto"):
        timed = [run.gpu for run in runs if _has_time(run, label)]
        return next((gpu for gpu in reversed(timed) if gpu != CPU), (timed or having)[-1])
    slug = wanted.lower() if wanted.lower() in having else gpu_slug(wanted)
    if slug not in having:
        known = ", ".join(dict.fromkeys(having))
        raise UnknownNameError(f"no stored run has {label} on {wanted}", f"there are runs of it on {known}")
    return slug


def other_gpus(runs: Sequence[StoredRun], label: str, chosen: str) -> dict[str, int]:
    """The other GPU models on which runs timed the kernel, with their number of runs, the most first."""
    timed = Counter(run.gpu for run in runs if _has_time(run, label))
    return {gpu: count for gpu, count in timed.most_common() if gpu not in {chosen, CPU}}


def check_workloads(runs: Sequence[StoredRun], label: str, gpu: str, workloads: Iterable[Workload]) -> None:
    """Raises UnknownNameError for the first workload at which no run has the kernel; the hint has the known ones."""
    known = sorted({case.workload for case in _cases(runs, label, gpu)})
    for workload in workloads:
        if workload not in known:
            have = first_of([str(each) for each in known])
            raise UnknownNameError(f"no stored run has {label} at {workload} on {gpu}", f"there are {have}")


def usual_workloads(runs: Sequence[StoredRun], label: str, gpu: str, op: Op) -> tuple[Workload, ...]:
    """The workloads of the op's default suite at which some run has the kernel; all of the suite if none has.

    A kernel without a time at any of them is shown at those of the first suite where it has one, and with inputs of
    another profile where it has none of the default one.
    """
    default, cases = op.suite(DEFAULT_SUITE).workloads, _cases(runs, label, gpu)
    known, timed = {case.workload for case in cases}, {case.workload for case in cases if case.has_time}
    for profile in dict.fromkeys((op.profile, *op.workloads.profiles)):
        for suite in (DEFAULT_SUITE, *op.suites):
            workloads = tuple(workload.at(profile) for workload in op.suite(suite).workloads)
            if not timed.isdisjoint(workloads):
                return tuple(workload for workload in workloads if workload in known)
    return tuple(workload for workload in default if workload in known) or default


def _cases(runs: Sequence[StoredRun], label: str, gpu: str) -> list[StoredCase]:
    return [case for run in runs if run.gpu == gpu for case in run.cases.by_label.get(label, ())]


def _has_time(run: StoredRun, label: str) -> bool:
    return any(case.has_time for case in run.cases.by_label.get(label, ()))


def with_axes_of(runs: Sequence[StoredRun], op: Op) -> list[StoredRun]:
    """The op's runs at workloads of its present axes: axes that a run lacks have their defaults."""
    return [replace(run, axes=op.workloads, cases=run.cases.with_axes_of(op.workloads)) for run in runs]
