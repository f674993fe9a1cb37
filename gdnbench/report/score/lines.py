"""A score as a few lines for a person, and scores turn by turn with the best at the end."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.codec import finite
from gdnbench.model.status import Status
from gdnbench.render.console import data_console, plain_table, print_json, print_next
from gdnbench.render.units import factor, percent, time_text
from gdnbench.report.score.document import score_document
from gdnbench.score.plan import AnyVerdict, Code, NoVerdict, Score, WorkloadScore
from gdnbench.score.turns import Turn
from gdnbench.stats.interval import Comparison, Verdict
from gdnbench.wording import plural

_STYLES: dict[AnyVerdict, str] = {
    Verdict.FASTER: "bold green",
    Verdict.SLOWER: "bold red",
    Verdict.SAME: "bold",
    Verdict.UNCLEAR: "bold yellow",
    NoVerdict.NOT_HERE: "bold yellow",
}
_PHASES = {
    "start": "starting",
    "build": "building",
    "check": "checking",
    "interpret": "interpreting",
    "measure": "measuring",
    "cupti": "CUPTI",
    "explain": "explaining",
}


def print_score(score: Score, *, json: bool) -> None:
    """Prints a score, as JSON of under 4 KB if `json`."""
    if json:
        print_json(score_document(score))
        return
    console = data_console()
    console.print(verdict_line(score))
    _print_workloads(console, score)
    for line in _lines(score):
        console.print(line)
    console.print()
    print_next(console, next_command(score))


def verdict_style(verdict: AnyVerdict) -> str:
    """Returns the verdict's colour; that of a failure if it has none."""
    return _STYLES.get(verdict, "bold red")


def verdict_line(score: Score) -> Text:
    """Returns `decode-v9 faster than decode-fla: 1.572x (1.563 to 1.581), kernel 1.465x`; else the reason."""
    told = Text(f"{score.kernel} ", style="bold")
    told.append(str(score.verdict), style=verdict_style(score.verdict))
    if score.ratio is None:
        return told.append(f": {score.reason.strip()}", style="not bold")
    joint = {Verdict.SAME: " as", Verdict.UNCLEAR: " against"}.get(score.ratio.verdict, " than")
    told.append(f"{joint} {score.against}: {_ratio(score.ratio)}", style="not bold")
    if score.kernel_ratio:
        told.append(f"; kernel alone {factor(score.kernel_ratio.speedup.estimate)}", style="not bold")
    return told


def _ratio(comparison: Comparison) -> str:
    interval = comparison.speedup
    return f"{factor(interval.estimate)} ({interval.low:.3f} to {interval.high:.3f})"


def _lines(score: Score) -> Iterator[Text]:
    if len(score.workloads) == 1:
        yield Text(_times(score.workloads[0]))
    if code := _code(score):
        yield Text(code)
    if score.cause:
        yield Text(f"{score.cause.title}: {score.cause.share:.0%} of the time. {score.cause.meaning}")
        yield Text(f"try: {shlex.join(score.cause.experiment.command)}", style="cyan")
    for warning in score.warnings:
        yield Text(f"note: {warning}", style="yellow")
    yield Text(_effort(score), style="dim")


def _times(score: WorkloadScore) -> str:
    told = [str(score.workload)]
    if score.timing:
        told.append(f"{time_text(score.timing.time_us)} µs")
        if score.kernel:
            told.append(f"kernel {time_text(score.kernel.time_us)} µs")
        leading, by = (score.kernel, "by kernel times") if score.kernel else (score.timing, "launch on both sides")
        if leading.bound:
            told.append(f"{percent(leading.sol)} of the bound ({leading.bound}), {by}")
    return ", ".join(told)


def _code(score: Score) -> str:
    code = score.code
    told = [
        (code.registers, "registers"),
        (code.spill_bytes, "B spilled"),
        (code.shared_bytes, "B of static shared memory"),
    ]
    parts = [f"{count:,} {what}" for count, what in told if count is not None]
    if code.dependent_loads:
        parts.append(f"{plural(code.dependent_loads, 'trip')} to memory in a row")
    return ", ".join(parts)


def _effort(score: Score) -> str:
    phases = [f"{_PHASES[phase]} {seconds:.1f}" for phase, seconds in score.seconds.items() if phase in _PHASES]
    measured = f"; {plural(score.processes, 'process', 'processes')}, {score.rounds} rounds" if score.rounds else ""
    return f"{score.seconds.get('all', 0.0):.1f} s: {', '.join(phases)}{measured}"


def _print_workloads(console: Console, score: Score) -> None:
    if len(score.workloads) < 2:
        return
    for each in sorted(score.workloads, key=lambda each: each.workload):
        if each.speedup:
            console.print(Text(f"  {each.workload}  {_ratio(each.speedup)} {each.speedup.verdict}"))
        else:
            console.print(Text(f"  {each.workload}  {each.status}: {each.reason}"))


def next_command(score: Score) -> tuple[str, ...]:
    """Returns the next command: one that tells more of a failure, or the run that a claim needs."""
    if score.verdict is Status.BROKEN:
        return ("gdnbench", "list")  # other verbs do not know its name
    if score.verdict is Status.BUILD_FAILED:
        return ("gdnbench", "inspect", score.kernel)
    if isinstance(score.verdict, Status):
        return ("gdnbench", "verify", score.kernel)
    if score.verdict is NoVerdict.NOT_HERE:  # if nothing was compiled, its line says what it needs
        return ("gdnbench", "inspect" if score.code != Code() else "list", score.kernel)
    if score.verdict is NoVerdict.NO_BASELINE:
        return ("gdnbench", "list")
    return ("gdnbench", "run", score.kernel, "--baseline", score.against, *_shape(score))


def _shape(score: Score) -> tuple[str, ...]:
    return tuple(score.workloads[0].workload.options) if len(score.workloads) == 1 else ()


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
