"""Whether a kernel's ratio to its anchor moved between two runs by more than the random effect of a run.

A ratio's interval over the rounds of one run does not include what differs from process to process (docs/measuring.md:
ratios repeat to about 1 %, with intervals of 0.1 to 0.3 %). So the difference between two runs has a further component
of variance, the random effect of the run, which is estimated from kernels that did not change between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.stats import FloatArray
from gdnbench.stats.comparison import Comparison, judge
from gdnbench.stats.estimators import MAD_TO_SD
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.unpaired import UnpairedLogRatio, VarianceComponent

PRIOR_SD = 0.005
"""The run effect where no peer tells: the ratios of five runs lie within 0.9 %, an sd of 0.4 %; rounded up."""

PRIOR_DF = 4
"""How many pairs of runs that assumption is worth: those of the five runs."""


@dataclass(frozen=True, slots=True)
class RunEffect:
    """The random effect of a run on the log-ratio of a kernel that did not change.

    Attributes:
        sd: standard deviation of one run's log-ratio; that of a difference of two runs is sqrt(2) times as large.
        df: degrees of freedom of that estimate.
    """

    sd: float = PRIOR_SD
    df: float = PRIOR_DF


def estimate_run_effect(changes: Sequence[FloatArray]) -> RunEffect:
    """Estimates the run effect from the changes of unchanged peers, shrunk towards the prior while runs are few.

    The moderated variance of Smyth, "Linear models and empirical Bayes methods for assessing differential expression",
    SAGMB 3 (2004): `sd^2 = (d0 * s0^2 + d * s^2) / (d0 + d)` with `d0 + d` degrees of freedom, where s0 and d0 are the
    prior's. Here d is the number of pairs of runs that have peers, not of peers: all peers of a pair share its anchor,
    and with it much of their effect. And `s = 1.4826 * median(|change|) / sqrt(2)`, a median, so that a peer that did
    change does not hide the changes of others.

    Args:
        changes: for each pair of neighbouring runs, shape (peers,), the change of each peer's mean log-ratio. It
            includes the variance over rounds, so the estimate is too large rather than too small.
    """
    known = [change for change in changes if change.size > 0]
    if not known:
        return RunEffect()
    own = MAD_TO_SD * float(np.median(np.abs(np.concatenate(known)))) / math.sqrt(2.0)
    df = PRIOR_DF + len(known)
    return RunEffect(math.sqrt((PRIOR_DF * PRIOR_SD**2 + len(known) * own**2) / df), df)


def compare_runs(
    before: PairedLogRatio, after: PairedLogRatio, effect: RunEffect, *, margin: float, confidence: float = 0.95
) -> Comparison:
    """Judges a kernel's change from one run to the next: FASTER and SLOWER are steps.

    Welch's interval ("The generalization of Student's problem when several different population variances are
    involved", Biometrika 34, 1947) with the run effect as a third component: the half-width is
    `t * sqrt(s1^2/n1 + s2^2/n2 + 2*sd^2)`, with t of the degrees of freedom `(sum v)^2 / sum(v^2 / df)` over the three
    components v, after Satterthwaite. The level is that of one pair; the margin makes false steps rarer still.

    Args:
        before: log(anchor / kernel) over the rounds of the earlier run.
        after: the same of the later run.
        effect: of a run.
        margin: changes up to this ratio are no steps.
        confidence: of the interval, between 0 and 1, both excluded.

    Returns:
        The change as a speedup, ratio to the anchor before / after: above 1 the kernel has become faster. With fewer
        than two rounds on a side it is UNCLEAR, with the interval (0, infinity).

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    components = (_mean_variance(before), _mean_variance(after), VarianceComponent(2.0 * effect.sd**2, effect.df))
    speedup = UnpairedLogRatio(after.mean - before.mean, components).speedup(confidence)
    return Comparison(speedup, judge(speedup, margin))


def _mean_variance(run: PairedLogRatio) -> VarianceComponent:
    """The variance of a run's mean over its rounds; unknown from one round."""
    return VarianceComponent(run.sd**2 / run.n, run.n - 1.0) if run.n > 1 else VarianceComponent(math.inf, 1.0)
