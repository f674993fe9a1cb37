"""Whether a kernel's ratio to its anchor moved between two runs by more than runs move by themselves.

A ratio's interval over the rounds of one run does not hold what differs from process to process (docs/measuring.md:
ratios repeat to about 1 %, with intervals of 0.1 to 0.3 %). So the difference between two runs carries a second
variance, that of the run, which is estimated from kernels that did not change between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.stats.comparison import Comparison, judge
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.scale import MAD_TO_SD
from gdnbench.stats.types import FloatArray
from gdnbench.stats.unpaired import Blur, UnpairedLogRatio

PRIOR_SD = 0.005
"""Taken for the scatter where no peer tells: the ratios of five runs lie within 0.9 %, an sd of 0.4 %; rounded up."""

PRIOR_DF = 4
"""How many pairs of runs that assumption is worth: those of the five runs."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """How far the log-ratio of a kernel that did not change moves from run to run.

    Attributes:
        sd: standard deviation of one run's log-ratio; that of a difference of two runs is sqrt(2) times as large.
        df: degrees of freedom that it is known with.
    """

    sd: float = PRIOR_SD
    df: float = PRIOR_DF


def run_to_run_scatter(changes: Sequence[FloatArray]) -> Scatter:
    """Estimates the scatter from the changes of unchanged peers, leaning on the prior while runs are few.

    The moderated variance of Smyth, "Linear models and empirical Bayes methods for assessing differential expression",
    SAGMB 3 (2004): `sd^2 = (d0 * s0^2 + d * s^2) / (d0 + d)` with `d0 + d` degrees of freedom, where s0 and d0 are the
    prior's. Here d is the number of pairs of runs that have peers, not of peers: all peers of a pair share its anchor,
    and with it much of their scatter. And `s = 1.4826 * median(|change|) / sqrt(2)`, a median, so that a peer that did
    step does not hide the steps of others.

    Args:
        changes: for each pair of neighbouring runs, shape (peers,), the change of each peer's mean log-ratio. It holds
            the scatter over rounds too, so that the estimate errs on the wide side.
    """
    told = [change for change in changes if change.size > 0]
    if not told:
        return Scatter()
    own = MAD_TO_SD * float(np.median(np.abs(np.concatenate(told)))) / math.sqrt(2.0)
    df = PRIOR_DF + len(told)
    return Scatter(math.sqrt((PRIOR_DF * PRIOR_SD**2 + len(told) * own**2) / df), df)


def compare_runs(
    before: PairedLogRatio, after: PairedLogRatio, scatter: Scatter, *, margin: float, confidence: float = 0.95
) -> Comparison:
    """Judges a kernel's change from one run to the next: FASTER and SLOWER are steps.

    Welch's interval ("The generalization of Student's problem when several different population variances are
    involved", Biometrika 34, 1947) with the run's own variance as a third part: the half-width is
    `t * sqrt(s1^2/n1 + s2^2/n2 + 2*sd^2)`, with t of the degrees of freedom `(sum v)^2 / sum(v^2 / df)` over the three
    parts v, after Satterthwaite. The level is that of one pair; the margin makes false steps rarer still.

    Args:
        before: log(anchor / kernel) over the rounds of the earlier run.
        after: the same of the later run.
        scatter: from run to run.
        margin: changes up to this ratio are no steps.
        confidence: of the interval, between 0 and 1, both excluded.

    Returns:
        The change as a speedup, ratio to the anchor before / after: above 1 the kernel has become faster. With fewer
        than two rounds on a side it is UNCLEAR, with the interval (0, infinity).

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    blurs = (_of_rounds(before), _of_rounds(after), Blur(2.0 * scatter.sd**2, scatter.df))
    speedup = UnpairedLogRatio(after.mean - before.mean, blurs).speedup(confidence)
    return Comparison(speedup, judge(speedup, margin))


def _of_rounds(run: PairedLogRatio) -> Blur:
    """How well a run's rounds tell its mean; one round says nothing of that."""
    return Blur(run.sd**2 / run.n, run.n - 1.0) if run.n > 1 else Blur(math.inf, 1.0)
