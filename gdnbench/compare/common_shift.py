"""The common shift: what all cases of one run moved by against another run, as the process, the card, the launch do.

From one process to the next all times move together by a few percent, so two runs of one GPU model are compared after
that is taken out. It is estimated from *anchors*, cases that both runs measured and that nobody changed: floors and
baselines with the same sources and, where drivers and libraries agree as well, every kernel with the same sources. A
kernel is never its own anchor. With `d_i = log(left time / right time)` of anchor i, of n at all workloads together:

- from 8 anchors on, the shift is `median(d)` and an unchanged case scatters about it by `s = Q_n(d)`, a robust standard
  deviation (`stats.scale`), so that one kernel that did change, as a compiler's choice may, moves neither. The median's
  variance is `pi/2 * s^2 / n`, and s has `0.82 * (n - 1)` degrees of freedom, by the efficiency of Q_n;
- of fewer, floors and baselines alone count, and it is `mean(d)` and `s = sd(d)`, with the variance `s^2 / n` and n - 1
  degrees of freedom.

A single case takes from it the uncertainty of a prediction, not of a mean: `s^2` and the variance above (Hahn and
Meeker, Statistical Intervals, 1991, section 4.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gdnbench.compare.figure import Figure, FigureSource
from gdnbench.compare.runs import VERSIONS
from gdnbench.model.case import Role
from gdnbench.model.params import Params
from gdnbench.model.workload import Workload
from gdnbench.stats.estimators import QN_EFFICIENCY, robust_scale
from gdnbench.stats.unpaired import VarianceComponent, unpaired_log_ratio

FEWEST = 2
"""The fewest anchors that give a shift; of one, the scatter is not known."""

MANY = 8
"""From so many anchors on, the median and the robust standard deviation are used."""

ASSUMED = 0.05
"""Half-width of the shift where there are too few anchors, a log-ratio: docs/measuring.md has 2 to 5 % a process."""

_TOOLS = (*VERSIONS, "driver")  # conditions that may make another kernel of the same sources

_Case = tuple[str, str, Params, Workload, str]


@dataclass(frozen=True)
class Anchor:
    """A case that both runs measured and nobody changed.

    Attributes:
        kernel: its kernel.
        label: its variant's label.
        firm: whether it is a floor or a baseline.
        moved: log(left time / right time).
    """

    kernel: str
    label: str
    firm: bool
    moved: float


@dataclass(frozen=True)
class ShiftEstimate:
    """A common shift, estimated from some anchors.

    Attributes:
        mean: log(left time / right time) that all cases share; 0 where there are too few anchors.
        scatter: standard deviation of unchanged cases about it, a log-ratio; NaN where there are too few anchors.
        anchors: how many it is estimated from.
        own: the uncertainty of each case for its own scatter.
        shared: the uncertainty of the shift itself, the same error in every case.
    """

    mean: float
    scatter: float
    anchors: int
    own: VarianceComponent
    shared: VarianceComponent

    @property
    def known(self) -> bool:
        """Whether there were anchors enough to estimate it."""
        return self.anchors >= FEWEST

    @property
    def percent(self) -> float:
        """How much longer the right run's times are, in percent."""
        return 100.0 * math.expm1(-self.mean)

    @property
    def of_a_case(self) -> VarianceComponent:
        """The sum of `own` and `shared`; both come from the same anchors, so their degrees of freedom are not added."""
        return VarianceComponent(self.own.variance + self.shared.variance, self.shared.df)


@dataclass(frozen=True)
class CommonShift:
    """How two runs of one GPU model differ as a whole.

    Attributes:
        anchors: every case that both measured and nobody changed.
    """

    anchors: tuple[Anchor, ...]

    def estimate(self, but: str = "") -> ShiftEstimate:
        """The shift that a kernel's cases are corrected by.

        Args:
            but: the kernel, whose own anchors are left out; empty to use them all.
        """
        chosen = self._anchors_but(but)
        moved = np.array([anchor.moved for anchor in chosen])
        count = len(chosen)
        if count < FEWEST:
            return ShiftEstimate(
                0.0,
                math.nan,
                count,
                VarianceComponent(0.0, math.inf),
                VarianceComponent((ASSUMED / 1.96) ** 2, math.inf),
            )
        if count < MANY:
            middle, scatter = float(np.mean(moved)), float(np.std(moved, ddof=1))
            loss, df = 1.0, float(count - 1)
        else:
            middle, scatter = float(np.median(moved)), robust_scale(moved)
            loss, df = math.pi / 2, QN_EFFICIENCY * (count - 1)
        return ShiftEstimate(
            middle, scatter, count, VarianceComponent(scatter**2, df), VarianceComponent(loss * scatter**2 / count, df)
        )

    def labels(self) -> list[str]:
        """The labels of the anchors that the whole shift is estimated from, each once."""
        return list(dict.fromkeys(anchor.label for anchor in self._anchors_but("")))

    def _anchors_but(self, but: str) -> list[Anchor]:
        others = [anchor for anchor in self.anchors if anchor.kernel != but]
        return others if len(others) >= MANY else [anchor for anchor in others if anchor.firm]


def shift_between(left: FigureSource, right: FigureSource) -> CommonShift | None:
    """The common shift of two runs of one GPU model; None where the models differ or are not known."""
    if not (left.is_measured and right.is_measured) or not left.gpu or left.gpu != right.gpu:
        return None
    others = _with_rounds(right)
    pairs = [(one, others[case]) for case, one in _with_rounds(left).items() if case in others]
    alike = _same_tools(left, right)
    anchors = [
        _anchor(one, other)
        for one, other in pairs
        if one.source_hash == other.source_hash and (_is_firm(one, other) or (alike and one.source_hash))
    ]
    return CommonShift(tuple(anchors))


def _with_rounds(source: FigureSource) -> dict[_Case, Figure]:
    return {
        (figure.op, figure.label, figure.params, figure.shape, figure.timer): figure
        for figure in source.figures
        if np.isfinite(figure.rounds_us).any()
    }


def _anchor(one: Figure, other: Figure) -> Anchor:
    moved = unpaired_log_ratio(other.rounds_us, one.rounds_us).mean
    return Anchor(one.kernel, one.label, _is_firm(one, other), moved)


def _is_firm(one: Figure, other: Figure) -> bool:
    return all(figure.role in {Role.FLOOR, Role.BASELINE} for figure in (one, other))


def _same_tools(left: FigureSource, right: FigureSource) -> bool:
    """Whether no driver and no library is known to differ: then unchanged sources make unchanged kernels."""
    both = [name for name in _TOOLS if name in left.conditions and name in right.conditions]
    return all(left.conditions[name] == right.conditions[name] for name in both)
