"""Scores turn by turn: a line each as they come, and all of them with the best at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.codec import finite
from gdnbench.report.console import plain_table
from gdnbench.report.score.document import score_document
from gdnbench.report.score.lines import verdict_style
from gdnbench.report.units import factor
from gdnbench.score.turns import Turn
from gdnbench.stats.comparison import Comparison
from gdnbench.wording import plural

_LONGEST_REASON = 300
_FOLDERS = re.compile(r"(?<!\S)/(?:[^/\s]+/)+")
"""A path's folders: whoever watches a kernel knows where it lies."""


def turn_line(turn: Turn, best: Turn | None) -> Text:
    """Returns `14:03:22  3  faster  1.021x (1.013 to 1.029)  kernel 1.034x  40 regs  6.1 s  best`."""
    score = turn.score
    line = Text(f"{turn.time:%H:%M:%S} {turn.number:>3}  ")
    line.append(f"{score.verdict!s:<8}", style=verdict_style(score.verdict))
    line.append(f" {_result(turn)}")
    if best is turn and turn.number > 1:
        line.append("  best", style="green")
    elif best and best.score.ratio and turn.score.ratio and _is_beyond(best.score.ratio, turn.score.ratio):
        line.append(f"  best {best.number}: {factor(best.score.ratio.speedup.estimate)}", style="dim")
    return line


def _is_beyond(best: Comparison, now: Comparison) -> bool:
    """Whether the best lies above the whole interval of this turn, so that it is worth naming."""
    return best.speedup.estimate > now.speedup.high


def _result(turn: Turn) -> str:
    score = turn.score
    seconds = f"{score.seconds.get('all', 0.0):.1f} s"
    if score.ratio is None:
        first = score.reason.strip().partition("\n")[0]
        return f"{_FOLDERS.sub('', first)[:_LONGEST_REASON]}  {seconds}"
    interval = score.ratio.speedup
    told = [f"{factor(interval.estimate)} ({interval.low:.3f} to {interval.high:.3f})"]
    if score.kernel_ratio:
        told.append(f"kernel {factor(score.kernel_ratio.speedup.estimate)}")
    if score.code.registers is not None:
        told.append(f"{score.code.registers} regs")
    if score.code.spill_bytes:
        told.append(f"{score.code.spill_bytes} B spilled")
    return "  ".join([*told, seconds])


def turn_json(turn: Turn) -> str:
    """Returns the score's document in one line, with the turn's number and time in front."""
    document: dict[str, Any] = {"turn": turn.number, "time": turn.time.isoformat(timespec="seconds")}
    return json.dumps(finite(document | score_document(turn.score)), separators=(",", ":"))


def print_history(console: Console, turns: Sequence[Turn], best: Turn | None) -> None:
    """Prints all turns, and which was the best."""
    table = plain_table()
    for title in ("turn", "verdict", "ratio", "low", "high", "kernel", "regs"):
        table.add_column(title, justify="left" if title == "verdict" else "right")
    for turn in turns:
        score = turn.score
        numbers = ["", "", ""]
        if score.ratio:
            interval = score.ratio.speedup
            numbers = [factor(interval.estimate), f"{interval.low:.3f}", f"{interval.high:.3f}"]
        kernel = factor(score.kernel_ratio.speedup.estimate) if score.kernel_ratio else ""
        registers = "" if score.code.registers is None else str(score.code.registers)
        style = "bold" if turn is best else ""
        table.add_row(str(turn.number), Text(str(score.verdict)), *numbers, kernel, registers, style=style)
    console.print(table)
    told = f"; best: {best.number}" if best else ""
    console.print(f"{plural(len(turns), 'turn')}{told}")
