"""Medians, intervals and verdicts: pure functions of arrays.

The path of a run's numbers: `interquartile_mean` makes one number of the samples of a round; `round_interval` makes
a case's time of its rounds; `compare_rounds` and `compare_family` make verdicts of rounds that two cases share, and
`compare_with_best` finds the best of many.
`infer_tick_us` and `interpolated_median` give the median beside it, for comparison with tools that report one.
"""

from gdnbench.stats.best import Field, compare_with_best
from gdnbench.stats.comparison import Comparison, Verdict, compare_rounds, judge
from gdnbench.stats.holm import compare_family
from gdnbench.stats.interval import Interval, round_interval, t_interval
from gdnbench.stats.margin import DEFAULT_MARGIN
from gdnbench.stats.medians import interpolated_median
from gdnbench.stats.midmean import interquartile_mean
from gdnbench.stats.settle import more_rounds_to_settle
from gdnbench.stats.ticks import infer_tick_us
from gdnbench.stats.types import FloatArray
from gdnbench.stats.weighted import weighted_geomean

__all__ = [
    "DEFAULT_MARGIN",
    "Comparison",
    "Field",
    "FloatArray",
    "Interval",
    "Verdict",
    "compare_family",
    "compare_rounds",
    "compare_with_best",
    "infer_tick_us",
    "interpolated_median",
    "interquartile_mean",
    "judge",
    "more_rounds_to_settle",
    "round_interval",
    "t_interval",
    "weighted_geomean",
]
