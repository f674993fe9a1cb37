"""What all cases of one run share against another run: the process, the card, the launch.

From one process to the next all times move together by a few percent, so two runs of one GPU model are compared after
that is taken out. It is read off *anchors*, cases that both runs measured and that nobody changed: floors and baselines
with the same sources and, where drivers and libraries agree as well, every kernel with the same sources. A kernel is
never its own anchor. With `d_i = log(left time / right time)` of anchor i, of n in all shapes together:

- from 8 anchors on, the shift is `median(d)` and a case that did not change strays from it by `s = Q_n(d)`, a robust
  standard deviation (`stats.scale`), so that one kernel that did change, as a compiler's choice may, moves neither. The
  median's variance is `pi/2 * s^2 / n`, and s has `0.82 * (n - 1)` degrees of freedom, by the efficiency of Q_n;
- of fewer, floors and baselines alone count, and it is `mean(d)` and `s = sd(d)`, with the variance `s^2 / n` and n - 1
  degrees of freedom.

What a single case takes from it is the uncertainty of a prediction, not of a mean: `s^2` and the variance above (Hahn
and Meeker, Statistical Intervals, 1991, section 4.7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.compare.figure import Figure, Kind, Source
from gdnbench.compare.measured import VERSIONS
from gdnbench.model import Params, Role, Shape
from gdnbench.stats.scale import EFFICIENCY, robust_scale
from gdnbench.stats.unpaired import Blur, unpaired_log_ratio

FEWEST = 2
"""Anchors; one says nothing of how they scatter."""

MANY = 8
"""Anchors, of which a median and a robust deviation tell enough."""

ASSUMED = 0.05
"""Half-width of what a process may move its times by where too few anchors tell; docs/measuring.md: 2 to 5 %."""

TOOLS = (*VERSIONS, "driver")

_Case = tuple[str, str, Params, Shape, str]


@dataclass(frozen=True)
class Anchor:
    """A case that nobody changed.

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
class Estimate:
    """A shift as some anchors tell it.

    Attributes:
        mean: log(left time / right time) that all cases share; 0 where too few anchors tell.
        scatter: how far a case strays from it, a standard deviation; NaN where too few tell.
        anchors: how many tell.
        own: what a case strays by.
        shared: what the shift itself may be off by, the same in every case.
    """

    mean: float
    scatter: float
    anchors: int
    own: Blur
    shared: Blur

    @property
    def known(self) -> bool:
        """Whether there are anchors enough."""
        return self.anchors >= FEWEST

    @property
    def percent(self) -> float:
        """How much longer the right run's times are, in percent."""
        return 100.0 * math.expm1(-self.mean)

    @property
    def of_a_case(self) -> Blur:
        """Both, which come from the same anchors and so share their degrees of freedom."""
        return Blur(self.own.variance + self.shared.variance, self.shared.df)


@dataclass(frozen=True)
class Shift:
    """How two runs of one GPU model differ as a whole."""

    anchors: tuple[Anchor, ...]

    def estimate(self, but: str = "") -> Estimate:
        """The shift as a kernel's cases need it, from the anchors that are not that kernel.

        Args:
            but: the kernel; empty for the whole.
        """
        chosen = self._telling(but)
        moved = np.array([anchor.moved for anchor in chosen])
        count = len(chosen)
        if count < FEWEST:
            return Estimate(0.0, math.nan, count, Blur(0.0, math.inf), Blur((ASSUMED / 1.96) ** 2, math.inf))
        if count < MANY:
            middle, scatter = float(np.mean(moved)), float(np.std(moved, ddof=1))
            loss, df = 1.0, float(count - 1)
        else:
            middle, scatter = float(np.median(moved)), robust_scale(moved)
            loss, df = math.pi / 2, EFFICIENCY * (count - 1)
        return Estimate(middle, scatter, count, Blur(scatter**2, df), Blur(loss * scatter**2 / count, df))

    def labels(self) -> list[str]:
        """The labels that tell the whole, each once."""
        return list(dict.fromkeys(anchor.label for anchor in self._telling("")))

    def _telling(self, but: str) -> Sequence[Anchor]:
        others = [anchor for anchor in self.anchors if anchor.kernel != but]
        return others if len(others) >= MANY else [anchor for anchor in others if anchor.firm]


def shift_between(left: Source, right: Source) -> Shift | None:
    """The common shift of two runs of one GPU model; None where the models differ or are not known."""
    measured = left.kind is Kind.MEASURED and right.kind is Kind.MEASURED
    if not measured or not left.gpu or left.gpu != right.gpu:
        return None
    others = _timed(right)
    pairs = [(one, others[case]) for case, one in _timed(left).items() if case in others]
    alike = _same_tools(left, right)
    anchors = [
        _anchor(one, other)
        for one, other in pairs
        if one.source_hash == other.source_hash and (_is_firm(one, other) or (alike and one.source_hash))
    ]
    return Shift(tuple(anchors))


def _timed(source: Source) -> dict[_Case, Figure]:
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


def _same_tools(left: Source, right: Source) -> bool:
    """Whether no driver and no library is known to differ, so that unchanged sources make unchanged kernels."""
    both = [name for name in TOOLS if name in left.conditions and name in right.conditions]
    return all(left.conditions[name] == right.conditions[name] for name in both)
