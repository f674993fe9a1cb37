"""`--fail-on slower:1%`: a comparison that a script can act on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.compare.join import Row
from gdnbench.compare.ratio import Ratio, is_floor
from gdnbench.errors import ExitCode, UsageError
from gdnbench.model import Status
from gdnbench.stats import Verdict
from gdnbench.stats.margin import margin_edges

_CONDITION = re.compile(r"slower(?::(?P<margin>\d+(?:\.\d*)?|\.\d+)%)?")


@dataclass(frozen=True)
class Outcome:
    """What the gate found in the last column.

    Attributes:
        slower: rows whose whole interval lies beyond the margin.
        failed: rows that have a time in the first column and failed in the last.
        untold: rows that cannot be told from the margin, have no interval, or whose turn did not come.
    """

    slower: tuple[Row, ...]
    failed: tuple[Row, ...]
    untold: tuple[Row, ...]

    def exit_code(self, *, strict: bool) -> ExitCode:
        """REGRESSION where something is slower or failed; if `strict`, NOISY where something cannot be told."""
        if self.slower or self.failed:
            return ExitCode.REGRESSION
        return ExitCode.NOISY if strict and self.untold else ExitCode.OK


def parse_gate(text: str, margin: float) -> float:
    """The margin of `slower` or `slower:1%`, a ratio.

    Args:
        text: what `--fail-on` was given.
        margin: what holds where it names none.

    Raises:
        UsageError: for anything else.
    """
    found = _CONDITION.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--fail-on {text!r} is no condition", "as in --fail-on slower or --fail-on slower:1%")
    return float(found["margin"]) / 100.0 if found["margin"] else margin


def check(rows: Sequence[Row], ratios: Sequence[Ratio | None], margin: float) -> Outcome:
    """Judges the last column against the first; floors belong to the machine, not to the code, and are left out.

    Args:
        rows: of the grid.
        ratios: of the last column, judged at the gate's margin.
        margin: the gate's.
    """
    slower, failed, untold = [], [], []
    for row, ratio in zip(rows, ratios, strict=True):
        first, last = row.entries[0], row.entries[-1]
        if not first or not last or is_floor(first) or first.figure.status is not Status.OK:
            continue
        if last.figure.status is Status.NOT_RUN:
            untold.append(row)
        elif last.figure.status.is_failure:
            failed.append(row)
        elif ratio and ratio.comparison and ratio.comparison.verdict is Verdict.SLOWER:
            slower.append(row)
        elif ratio and not _is_cleared(ratio, margin):
            untold.append(row)
    return Outcome(tuple(slower), tuple(failed), tuple(untold))


def _is_cleared(ratio: Ratio, margin: float) -> bool:
    """Whether the whole interval lies on the good side of the margin, SAME or FASTER or between the two."""
    return ratio.comparison is not None and ratio.comparison.speedup.low >= margin_edges(margin)[0]
