"""Which of two kernels is faster, and whether the run can tell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gdnbench.stats.interval import Interval
from gdnbench.stats.margin import DEFAULT_MARGIN, margin_edges
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.settle import more_rounds_to_settle
from gdnbench.stats.types import FloatArray


class Verdict(StrEnum):
    """What a speedup's interval says against a margin."""

    FASTER = "faster"
    """The whole interval lies above 1 + margin."""
    SLOWER = "slower"
    """The whole interval lies below 1 / (1 + margin)."""
    SAME = "same"
    """The whole interval lies between the two: any difference is too small to care for."""
    UNCLEAR = "unclear"
    """The interval reaches across an edge of the margin: more rounds are needed to tell."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A kernel against its baseline.

    Attributes:
        speedup: baseline time / kernel time, a ratio; above 1 the kernel is faster.
        verdict: what the interval of the speedup says.
        more_rounds: only where UNCLEAR: further rounds that would settle it; None where no number would.

    Raises:
        ValueError: if a settled verdict carries `more_rounds`.
    """

    speedup: Interval
    verdict: Verdict
    more_rounds: int | None = None

    def __post_init__(self) -> None:
        if self.more_rounds is not None and self.verdict is not Verdict.UNCLEAR:
            raise ValueError(f"a comparison that is {self.verdict} needs no more rounds")


def judge(speedup: Interval, margin: float) -> Verdict:
    """Read the verdict off the interval of a speedup.

    Args:
        speedup: baseline time / kernel time, a ratio.
        margin: a ratio, 0.005 is half a percent; the margin is 1 / (1 + margin) to 1 + margin.

    Raises:
        ValueError: if the margin is negative or not finite.
    """
    below, above = margin_edges(margin)
    if speedup.low > above:
        return Verdict.FASTER
    if speedup.high < below:
        return Verdict.SLOWER
    return Verdict.SAME if below <= speedup.low and speedup.high <= above else Verdict.UNCLEAR


def compare_rounds(
    kernel_us: FloatArray,
    baseline_us: FloatArray,
    *,
    margin: float = DEFAULT_MARGIN,
    confidence: float = 0.95,
) -> Comparison:
    """Compare a kernel with its baseline by the rounds in which both were measured.

    The mean paired log-ratio with its Student t-interval over rounds, judged against the margin. Fewer than
    two paired rounds are UNCLEAR, with the interval (0, infinity). To compare several kernels at once use
    `compare_family`, which keeps the chance of one false verdict where this puts that of each.

    Args:
        kernel_us: shape (rounds,), round medians in microseconds, NaN where the round is missing.
        baseline_us: shape (rounds,), the same rounds of the baseline.
        margin: differences up to this ratio count as none.
        confidence: of the interval, between 0 and 1, both excluded.

    Raises:
        ValueError: if the shapes differ, a time is infinite, zero or negative, or `margin` or `confidence`
            is out of range.
    """
    return assess(PairedLogRatio.from_rounds(kernel_us, baseline_us), margin, confidence)


def assess(ratio: PairedLogRatio, margin: float, confidence: float) -> Comparison:
    """Judge a paired log-ratio at one level of confidence.

    Args:
        ratio: what the rounds say of log(baseline / kernel).
        margin: differences up to this ratio count as none.
        confidence: of the interval, between 0 and 1, both excluded.

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    speedup = ratio.speedup(confidence)
    verdict = judge(speedup, margin)
    if verdict is not Verdict.UNCLEAR:
        return Comparison(speedup, verdict)
    more = more_rounds_to_settle(ratio.mean, ratio.sd, ratio.n, margin=margin, confidence=confidence)
    return Comparison(speedup, verdict, more)
