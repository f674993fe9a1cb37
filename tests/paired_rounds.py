"""Comparisons of cases by their rounds, in one process."""

from gdnbench.stats.interval import DEFAULT_MARGIN
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio, judge_paired


def compare_rounds(kernel_us, baseline_us, *, margin=DEFAULT_MARGIN, confidence=0.95):
    return judge_paired(PairedLogRatio.from_rounds(kernel_us, baseline_us), margin, confidence)


def compare_family(pairs, **limits):
    """`pairs`: kernel and baseline by key, two arrays of round times each."""
    return judge_family({key: PairedLogRatio.from_rounds(*pair) for key, pair in pairs.items()}, **limits)
