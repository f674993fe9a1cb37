"""Numbers as the page shows them; the unknown ones are empty."""

from __future__ import annotations

import math

from gdnbench.model import Versus
from gdnbench.report.html.content import Cell
from gdnbench.report.run_table import percent, time_text

GLYPHS = {"faster": "▲", "slower": "▼", "same": "=", "unclear": "?", "best": "★", "tied": "="}


def time_cell(time_us: float, low_us: float = math.nan, high_us: float = math.nan) -> Cell:
    """A time in microseconds with its interval."""
    if math.isnan(time_us):
        return Cell(text="")
    known = math.isfinite(high_us - low_us)
    aside = f"±{percent((high_us - low_us) / 2 / time_us)}" if known else ""
    return Cell(text=time_text(time_us), aside=aside, sort=time_us)


def speedup_cell(versus: Versus | None) -> Cell:
    """Baseline time / this time, with half of its interval, relative to it; nothing of one that has no end."""
    if versus is None or math.isnan(versus.speedup):
        return Cell(text="")
    text = f"{versus.speedup:.{3 if versus.speedup < 10 else 2}f}x"
    known = math.isfinite(versus.high)
    aside = f"±{percent((versus.high - versus.low) / 2 / versus.speedup)}" if known else ""
    return Cell(text=text, aside=aside, sort=versus.speedup)


def verdict_cell(verdict: str) -> Cell:
    """A verdict in capitals, with a sign, so that colour is not all that tells them apart."""
    return Cell(text=f"{GLYPHS.get(verdict, '')} {verdict.upper()}".strip(), sort=verdict, mark=verdict)


def share_cell(share: float) -> Cell:
    """`91.7%`."""
    return Cell(text="") if math.isnan(share) else Cell(text=f"{share:.1%}", sort=share)


def count_cell(count: int) -> Cell:
    """A whole number; below 0 stands for unknown."""
    return Cell(text="") if count < 0 else Cell(text=f"{count}", sort=count)


def whole_cell(value: float) -> Cell:
    """A number of which decimals do not matter."""
    return Cell(text="") if math.isnan(value) else Cell(text=f"{value:.0f}", sort=value)
