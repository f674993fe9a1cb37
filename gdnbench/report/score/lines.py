"""A score as a few lines for a person, and as one line of a list of scores."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from gdnbench.model.status import Status
from gdnbench.report.console import data_console, print_json, print_next
from gdnbench.report.score.document import score_document
from gdnbench.report.units import factor, percent, time_text
from gdnbench.score.score import AnyVerdict, Code, NoVerdict, Score, WorkloadScore
from gdnbench.stats.comparison import Comparison, Verdict
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
        if score.kernel_us:
            told.append(f"kernel {time_text(score.kernel_us)} µs")
        if score.timing.bound:
            told.append(f"{percent(score.timing.sol)} of SOL ({score.timing.bound})")
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
