"""`gdnbench score`: is it right, is it faster, by how much, in seconds? And scores turn by turn."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from gdnbench.catalog.catalog import load_catalog_of
from gdnbench.catalog.entry import label_parts
from gdnbench.catalog.revision import GIT_PREFIX, WORKING_TREE
from gdnbench.codec import finite
from gdnbench.machine import gpus
from gdnbench.model.status import Status
from gdnbench.remote.targets import first_target
from gdnbench.render.digest import Digest, fit
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block
from gdnbench.render.units import factor, percent, time_text
from gdnbench.score.plan import AnyVerdict, Code, NoVerdict, Score, ScoreRequest, Turn, WorkloadScore, with_revision
from gdnbench.stats.interval import Comparison, Verdict
from gdnbench.verbs import options, progress
from gdnbench.verbs.options import complete_kernels
from gdnbench.verbs.run_notes import with_inputs
from gdnbench.wording import plural


def score(
    ctx: typer.Context,
    kernels: options.KernelArgument = None,
    kernel: options.KernelsOption = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="KERNEL",
            help="What to compare with: a kernel, or git:REV for itself at a commit; the op's baseline.",
            autocompletion=complete_kernels,
        ),
    ] = "",
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    suite: options.SuiteOption = "",
    margin: options.MarginOption = 0.005,
    budget: options.BudgetOption = "6s",
    seed: options.SeedOption = None,
    profile: options.ProfileOption = None,
    inputs: options.InputsOption = None,
    step_limit: options.StepLimitOption = 10.0,
    fresh: options.FreshOption = False,
    watch: Annotated[bool, typer.Option("--watch", help="Score it each time that its sources are saved.")] = False,
    turns: Annotated[
        int, typer.Option(min=0, metavar="N", help="With --watch: stop after so many scores; 0 for none.")
    ] = 0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Build, check and measure one kernel against one other until the verdict is clear.

    For the loop of editing and trying: seconds, where a run takes a minute. It is
    checked before it is timed, measured in one process after the other, and stopped
    once the verdict is clear or will not become so. Nothing is stored. The exit code
    is the verdict: 0 faster, 1 slower, 9 the same, 4 not clear, 10 right but not
    timed, as without a GPU; else why there is none, as with run. `--json` is under 4 KB.

    With --watch, one line for each save of the sources, or with --json a document. A
    save in the middle of a score begins it anew. Ctrl-C stops, and lists all turns.
    """
    from gdnbench.measure.plan import parse_duration
    from gdnbench.score.run import score_kernel

    options.check_mode(ctx, "watch", ("turns",))
    name = options.one_term(kernels, kernel, "gdnbench score decode-v9 --against decode-v8")
    request = ScoreRequest(
        kernel=name,
        op=op,
        against=against,
        axes=options.sizes(shape),
        suite=suite,
        margin=margin,
        budget_s=parse_duration(budget),
        step_limit_s=step_limit,
        seed=seed,
        profiles=options.joined(profile),
        inputs=inputs,
    )
    found = gpus.select_gpu(gpu, gpus.list_gpus())
    if watch:
        from gdnbench.verbs.watch import score_on_save

        score_on_save(request, found, turns, warm=not fresh, json=json, quiet=quiet)
        return
    with progress.watch(quiet=quiet or json) as observer:
        named = [each for each in (name, against) if each and not each.startswith(GIT_PREFIX)]
        revised = with_revision(load_catalog_of(named, op), request, observer)
        scored = score_kernel(*revised, found, observer, warm=not fresh)
    answer = Answer(text=lambda _: _text(scored), document=lambda: score_document(scored), next=next_command(scored))
    print_answer(answer, json=json)
    raise typer.Exit(scored.exit_code)


_STYLES: dict[AnyVerdict, str] = {
    Verdict.FASTER: "bold green",
    Verdict.SLOWER: "bold red",
    Verdict.SAME: "bold",
    Verdict.UNCLEAR: "bold yellow",
    NoVerdict.NOT_TIMED: "bold green",
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


def verdict_style(verdict: AnyVerdict) -> str:
    """Returns the verdict's colour; that of a failure if it has none."""
    return _STYLES.get(verdict, "bold red")


def verdict_line(score: Score) -> Text:
    """Returns `decode-v9 faster than decode-fla: 1.572x (1.563 to 1.581), kernel 1.465x`; else the reason."""
    message = Text(f"{score.kernel} ", style="bold")
    words = "right in an interpreter, not timed" if score.verdict is NoVerdict.NOT_TIMED else str(score.verdict)
    message.append(words, style=verdict_style(score.verdict))
    if score.ratio is None:
        return message.append(f": {score.reason.strip()}", style="not bold")
    joint = {Verdict.SAME: " as", Verdict.UNCLEAR: " against"}.get(score.ratio.verdict, " than")
    message.append(f"{joint} {score.against}: {_ratio(score.ratio)}", style="not bold")
    if score.kernel_ratio:
        message.append(f"; kernel alone {factor(score.kernel_ratio.speedup.estimate)}", style="not bold")
    return message


def _ratio(comparison: Comparison) -> str:
    interval = comparison.speedup
    return f"{factor(interval.estimate)} ({interval.low:.3f} to {interval.high:.3f})"


def _text(score: Score) -> Iterator[Block]:
    yield verdict_line(score)
    yield from _workloads(score)
    if len(score.workloads) == 1:
        yield Text(_times(score.workloads[0]))
    if code := _code(score):
        yield Text(code)
    if score.cause:
        yield Text(f"{score.cause.title}: {score.cause.share:.0%} of the time. {score.cause.meaning}")
        yield Text(f"try: {shlex.join(score.cause.experiment.command)}", style="cyan")
    yield from (Text(f"note: {warning}", style="yellow") for warning in score.warnings)
    yield Text(_effort(score), style="dim")
    yield ""


def _times(score: WorkloadScore) -> str:
    message = [f"{score.workload}{with_inputs([score.workload])}"]
    if score.timing:
        message.append(f"{time_text(score.timing.time_us)} µs")
        if score.kernel:
            message.append(f"kernel {time_text(score.kernel.time_us)} µs")
        leading, by = (score.kernel, "by kernel times") if score.kernel else (score.timing, "launch on both sides")
        if leading.bound:
            message.append(f"{percent(leading.sol)} of the bound ({leading.bound}), {by}")
    return ", ".join(message)


def _code(score: Score) -> str:
    code = score.code
    message = [
        (code.registers, "registers"),
        (code.spill_bytes, "B spilled"),
        (code.shared_bytes, "B of static shared memory"),
    ]
    parts = [f"{count:,} {what}" for count, what in message if count is not None]
    if code.dependent_loads:
        parts.append(f"{plural(code.dependent_loads, 'trip')} to memory in a row")
    return ", ".join(parts)


def _effort(score: Score) -> str:
    phases = [f"{_PHASES[phase]} {seconds:.1f}" for phase, seconds in score.seconds.items() if phase in _PHASES]
    measured = f"; {plural(score.processes, 'process', 'processes')}, {score.rounds} rounds" if score.rounds else ""
    return f"{score.seconds.get('all', 0.0):.1f} s: {', '.join(phases)}{measured}"


def _workloads(score: Score) -> Iterator[Text]:
    for each in sorted(score.workloads, key=lambda each: each.workload) if len(score.workloads) > 1 else ():
        found = f"{_ratio(each.speedup)} {each.speedup.verdict}" if each.speedup else f"{each.status}: {each.reason}"
        yield Text(f"  {each.workload}  {found}")


def next_command(score: Score) -> tuple[str, ...]:
    """Returns the next command: one that shows more of a failure, or the run that a claim needs."""
    if score.verdict in {Status.BROKEN, NoVerdict.NO_BASELINE}:
        return ("gdnbench", "list")  # other verbs do not know the name of a broken one
    if score.verdict is Status.BUILD_FAILED:
        return ("gdnbench", "inspect", score.kernel)
    if isinstance(score.verdict, Status):
        return ("gdnbench", "verify", score.kernel)
    shape = score.workloads[0].workload.options if len(score.workloads) == 1 else ()
    measure: tuple[str, ...] = ("gdnbench", "run", score.kernel, "--baseline", score.against, *shape)
    if commit := label_parts(score.against)[0].partition("@")[2]:
        measure = ("gdnbench", "compare", commit, WORKING_TREE, "--kernel", score.kernel, *shape)
    if score.verdict is NoVerdict.NOT_TIMED and not commit and (target := first_target()):
        return (*measure, "--on", target)
    if score.verdict in {NoVerdict.NOT_TIMED, NoVerdict.NOT_HERE}:  # without code, its line says what it needs
        return ("gdnbench", "inspect" if score.code != Code() else "list", score.kernel)
    return measure


_LONGEST_REASON = 300  # characters in a line
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
    elif (
        best and best.score.ratio and score.ratio and best.score.ratio.speedup.estimate > score.ratio.speedup.high
    ):  # else it is not worth naming
        line.append(f"  best {best.number}: {factor(best.score.ratio.speedup.estimate)}", style="dim")
    return line


def _result(turn: Turn) -> str:
    score = turn.score
    seconds = f"{score.seconds.get('all', 0.0):.1f} s"
    if score.ratio is None:
        first = score.reason.strip().partition("\n")[0]
        return f"{_FOLDERS.sub('', first)[:_LONGEST_REASON]}  {seconds}"
    message = [_ratio(score.ratio)]
    if score.kernel_ratio:
        message.append(f"kernel {factor(score.kernel_ratio.speedup.estimate)}")
    if score.code.registers is not None:
        message.append(f"{score.code.registers} regs")
    if score.code.spill_bytes:
        message.append(f"{score.code.spill_bytes} B spilled")
    return "  ".join([*message, seconds])


def turn_json(turn: Turn) -> str:
    """Returns the score's document in one line, with the turn's number and time in front."""
    document: dict[str, Any] = {"turn": turn.number, "time": turn.time.isoformat(timespec="seconds")}
    return json.dumps(finite(document | score_document(turn.score)), separators=(",", ":"))


MOST_BYTES = 4000
_MOST_WARNINGS = 4
_MOST_WORKLOADS = 8


def score_document(score: Score) -> dict[str, Any]:
    """Returns the score's known parts, most important first; of many workloads the worst, with the number of all."""
    one = score.workloads[0] if len(score.workloads) == 1 else None
    document = {
        "kernel": score.kernel,
        "op": score.op,
        "gpu": score.gpu,
        "against": score.against,
        "verdict": str(score.verdict),
        "exit_code": int(score.exit_code),
        "means": score.exit_code.meaning,
        "ratio": score.ratio and _interval(score.ratio),
        "kernel_ratio": score.kernel_ratio and _interval(score.kernel_ratio),
        "confidence": score.confidence if score.ratio else None,
        "failure": score.reason,
        **(
            {"workload": str(one.workload), "profile": one.workload.inputs, **_parts(one)}
            if one
            else _of_many(score.workloads)
        ),
        **{name: count for name, count in vars(score.code).items() if count is not None},
        "cause": _cause(score),
        "processes": score.processes or None,
        "rounds": score.rounds or None,
        "seconds": {phase: round(seconds, 2) for phase, seconds in score.seconds.items() if seconds >= 0.005},
        "warnings": list(score.warnings[:_MOST_WARNINGS]),
    }
    known = {name: value for name, value in document.items() if value not in (None, "", [], {})}
    limit_bytes = MOST_BYTES  # of it in one line; line breaks, indents and escapes come to that
    while len(json.dumps(fitted := fit({}, Digest(known), limit_bytes=limit_bytes), indent=2)) > MOST_BYTES:
        limit_bytes -= 400
    return fitted


def _of_many(workloads: Sequence[WorkloadScore]) -> dict[str, Any]:
    ordered = sorted(workloads, key=lambda each: each.speedup.speedup.estimate if each.speedup else 0.0)
    shown = [{"workload": str(each.workload), **_brief(each)} for each in ordered[:_MOST_WORKLOADS]]
    verdicts = [each.speedup.verdict for each in workloads if each.speedup]
    counts = {str(verdict): verdicts.count(verdict) for verdict in Verdict if verdict in verdicts}
    numbers = {"count": len(workloads), **counts} if workloads else {}
    return {"workloads": numbers, "worst_workloads" if len(shown) < len(ordered) else "by_workload": shown}


def _parts(score: WorkloadScore) -> dict[str, Any]:
    timing = score.timing
    if timing is None:
        return {}
    return {
        "time_us": timing.time_us,
        "kernel_time_us": score.kernel.time_us if score.kernel else None,
        "kernel_share_of_bound": score.kernel.sol if score.kernel and score.kernel.bound else None,
        "share_of_bound": timing.sol if timing.bound else None,
        "bound": timing.bound or None,
    }


def _brief(score: WorkloadScore) -> dict[str, Any]:
    if score.speedup is None:
        return {"status": str(score.status), "reason": score.reason[:120]}
    return {**_interval(score.speedup), "verdict": str(score.speedup.verdict)}


def _interval(comparison: Comparison) -> dict[str, Any]:
    interval = comparison.speedup
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def _cause(score: Score) -> dict[str, Any] | None:
    cause = score.cause
    if cause is None:
        return None
    return {
        "title": cause.title,
        "share_of_time": round(cause.share, 3),
        "meaning": cause.meaning,
        "try": shlex.join(cause.experiment.command),
        "why": cause.experiment.why,
    }
