"""A single comparison of two cases by their rounds."""

from gdnbench.stats.comparison import DEFAULT_MARGIN
from gdnbench.stats.paired import PairedLogRatio, judge_paired


def compare_rounds(kernel_us, baseline_us, *, margin=DEFAULT_MARGIN, confidence=0.95):
    return judge_paired(PairedLogRatio.from_rounds(kernel_us, baseline_us), margin, confidence)
