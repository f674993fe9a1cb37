"""What the words of the page mean."""

from __future__ import annotations

from gdnbench.report.html.stored import Stored

_ALWAYS = (
    (
        "time µs",
        "The median over rounds of each round's mean of its middle half of samples; launch included, L2 cold.",
    ),
    ("FASTER, SLOWER", "The whole interval of the speedup lies beyond the margin, {margin}."),
    ("SAME", "The whole interval lies within the margin: any difference is too small to care for."),
    ("UNCLEAR", "The interval crosses the margin; the notes say how many more rounds would settle it."),
    ("vs, speedup", "Baseline time / kernel time, paired by round. Above 1 is faster."),
    ("±", "Half of the {confidence} interval over rounds; of speedups, corrected for the number of kernels (Holm)."),
    (
        "floor",
        "A kernel that bounds what is possible: an empty one of the same grid, one that only copies the state.",
    ),
    ("SOL", "Speed of light: the copying floor's time / the kernel's time."),
    ("GB/s", "The least traffic that the op needs / time."),
    ("A/A", "The baseline, measured twice in the same run: what it reads against itself is the run's noise."),
    ("not told apart", "The paired rounds leave open which is faster, or say that they tie."),
    ("regs, spill, smem", "Registers a thread, bytes a thread that do not fit them, static shared memory a block."),
    ("B, qk4_v8", "Batch size, and heads: here 4 query/key heads and 8 value heads."),
)
_SWEEP = (
    ("BEST, TIES", "The fastest point of a sweep, and those shown to lie within the margin of it."),
    ("simplest", "Of the points that tie, the one with the fewest params away from the kernel's defaults."),
)


def words_for(runs: tuple[Stored, ...]) -> tuple[tuple[str, str], ...]:
    """The legend, with the margin and confidence of the runs at hand."""
    margins = ", ".join(dict.fromkeys(f"±{run.info.settings['margin']:.2%}" for run in runs))
    levels = ", ".join(dict.fromkeys(f"{run.info.settings['confidence']:.0%}" for run in runs))
    words = (*_ALWAYS, *(_SWEEP if any(run.sweep for run in runs) else ()))
    return tuple((word, text.format(margin=margins, confidence=levels)) for word, text in words)
