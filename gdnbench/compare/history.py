"""One kernel's time at one shape over stored runs, and where it stepped. Pure functions of what was stored.

All times of one process move together, so a step is judged by the kernel's ratio to an anchor that was measured in the
same rounds: the floor that copies the state, or else the baseline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gdnbench.compare.changes import Change, changes_between, same_method, unchanged
from gdnbench.compare.figure import Figure
from gdnbench.compare.recorded import Recorded
from gdnbench.model import Role, Shape
from gdnbench.stats import Comparison, FloatArray, Interval, Verdict
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.steps import Scatter, compare_runs, run_to_run_scatter

DEFAULT_STEP_MARGIN = 0.01
"""One percent: what ratios repeat to at batch 1."""

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Row:
    """The kernel in one run.

    Attributes:
        run: the run.
        figure: what it says of the kernel.
        ratio: kernel time / anchor time, paired by round; None where either has no rounds.
        changes: what else changed since the row before, by name.
        since: the run that `change` is against: the last before it that was measured the same way; empty if none.
        change: the ratio before / the ratio now, above 1 is faster; None without a run to compare with.
        causes: what else changed since that run, which need not be the row before.
    """

    run: Recorded
    figure: Figure
    ratio: Interval | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)
    since: str = ""
    change: Comparison | None = None
    causes: Mapping[str, Change] = field(default_factory=dict)

    @property
    def is_step(self) -> bool:
        """Whether the interval of the change lies wholly beyond the margin."""
        return self.change is not None and self.change.verdict in {Verdict.FASTER, Verdict.SLOWER}


@dataclass(frozen=True, kw_only=True)
class History:
    """A kernel at one shape on one GPU model, oldest run first.

    Attributes:
        label: the kernel's label.
        gpu: the GPU's short name.
        shape: the workload.
        anchor: label of the case that ratios are taken to; empty if no run has one.
        scatter: how far ratios move from run to run by themselves.
        margin: changes up to this ratio are no steps.
        rows: a row for each run that has the kernel.
    """

    label: str
    gpu: str
    shape: Shape
    anchor: str
    scatter: Scatter
    margin: float
    rows: tuple[Row, ...]

    @property
    def largest_step(self) -> Row | None:
        """The row of the step that is largest, whichever way it goes."""
        steps = [row for row in self.rows if row.is_step and row.change]
        return max(steps, key=lambda row: abs(np.log(row.change.speedup.estimate)) if row.change else 0.0, default=None)


def history_of(
    runs: Sequence[Recorded], label: str, shape: Shape, *, gpu: str, margin: float = DEFAULT_STEP_MARGIN
) -> History:
    """The history of a kernel in runs of one GPU model, oldest first."""
    having = [(run, figure) for run in runs if (figure := _find(run, label, shape))]
    anchor = _choose_anchor([run for run, _ in having], label, shape)
    scatter = run_to_run_scatter(_peer_changes([run for run, _ in having], label, anchor, shape))
    rows: list[Row] = []
    for run, figure in having:
        rows.append(_row(run, figure, rows, anchor, scatter, margin))
    return History(label=label, gpu=gpu, shape=shape, anchor=anchor, scatter=scatter, margin=margin, rows=tuple(rows))


def _row(run: Recorded, figure: Figure, earlier: list[Row], anchor: str, scatter: Scatter, margin: float) -> Row:
    paired = _paired(run, figure, anchor)
    changes = {}
    if earlier:
        last = earlier[-1]
        changes = changes_between((last.run, last.figure), (run, figure), anchor)
    if paired is None:
        return Row(run=run, figure=figure, changes=changes)
    peer = next((row for row in reversed(earlier) if row.ratio and same_method(row.run, row.figure, run, figure)), None)
    before = _paired(peer.run, peer.figure, anchor) if peer else None
    return Row(
        run=run,
        figure=figure,
        ratio=_turned(paired).speedup(CONFIDENCE),
        changes=changes,
        since=peer.run.source.name if peer else "",
        change=compare_runs(before, paired, scatter, margin=margin) if before else None,
        causes=changes_between((peer.run, peer.figure), (run, figure), anchor) if peer else {},
    )


def _turned(ratio: PairedLogRatio) -> PairedLogRatio:
    """log(kernel / anchor) of log(anchor / kernel)."""
    return PairedLogRatio(-ratio.mean, ratio.sd, ratio.n)


def _paired(run: Recorded, figure: Figure, anchor: str) -> PairedLogRatio | None:
    """log(anchor / kernel) over the rounds that both have."""
    other = _find(run, anchor, figure.shape)
    if other is None or not figure.rounds_us.size or figure.rounds_us.shape != other.rounds_us.shape:
        return None
    paired = PairedLogRatio.from_rounds(figure.rounds_us, other.rounds_us)
    return paired if paired.n else None


def _find(run: Recorded, label: str, shape: Shape) -> Figure | None:
    return next((each for each in run.figures if each.label == label and each.shape == shape), None)


def _choose_anchor(runs: Sequence[Recorded], label: str, shape: Shape) -> str:
    """The copying floor if it is in half as many runs as the baseline, or more; else the most frequent baseline.

    An empty floor moves no bytes: it follows the launch but not the memory, and so cancels less.
    """
    here = [each for run in runs for each in run.figures if each.shape == shape and each.rounds_us.size]
    here = [each for each in here if each.label != label]
    floors = Counter(each.label for each in here if each.role is Role.FLOOR and each.nbytes > 0)
    baselines = Counter(each.label for each in here if each.role is Role.BASELINE)
    (floor, with_floor), (baseline, with_baseline) = (_commonest(floors), _commonest(baselines))
    return floor if 2 * with_floor >= with_baseline else baseline


def _commonest(labels: Counter[str]) -> tuple[str, int]:
    return labels.most_common(1)[0] if labels else ("", 0)


def _peer_changes(runs: Sequence[Recorded], label: str, anchor: str, shape: Shape) -> list[FloatArray]:
    """For each run and the one before it of the same method: how the ratios of unchanged other kernels moved."""
    found = []
    for place, run in enumerate(runs):
        for before in reversed(runs[:place]):
            changes = _changes_of_peers(before, run, label, anchor, shape)
            if changes.size:
                found.append(changes)
                break
    return found


def _changes_of_peers(before: Recorded, run: Recorded, label: str, anchor: str, shape: Shape) -> FloatArray:
    moved = []
    for figure in run.figures:
        old = _find(before, figure.label, shape)
        is_peer = figure.shape == shape and figure.role is not Role.FLOOR and figure.label not in (label, anchor)
        if not is_peer or old is None or not unchanged(before, old, run, figure):
            continue
        now, then = _paired(run, figure, anchor), _paired(before, old, anchor)
        if now and then:
            moved.append(now.mean - then.mean)
    return np.array(moved)
