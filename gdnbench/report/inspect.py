"""Prints `gdnbench inspect`: the numbers of builds, the changes between two, and code; broken rules on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.text import Text

from gdnbench.codegen.sass import listing
from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel, FailedBuild
from gdnbench.inspect.quantities import (
    CODE,
    OCCUPANCY,
    QUANTITIES,
    RESOURCES,
    BuildChange,
    BuildPair,
    BuildQuantity,
    QuantityValue,
    Violation,
    mix_order,
    mix_rows,
)
from gdnbench.model.gpu import format_serialized
from gdnbench.model.status import Status
from gdnbench.render.console import message_console, print_text
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, TitledRow, titled_table
from gdnbench.report.work import Work, work_blocks, work_of

NOTHING_BUILT = Note("next: mend what the compiler rejects, and inspect again", whole=True)
STATIC = "counts are static: a loop's body counts once however often it runs"
_MOST_COLUMNS = 4  # of one kernel, headed by architectures; names of several kernels are wider
_MOST_NAMED_COLUMNS = 3
_ONLY_IF_ANY = {"spill_stores", "spill_loads", "predicated"}
_ONLY_IF_KNOWN = {"serialized"}
_BAD_IF_ANY = ("spill", "serialized")  # beginnings of their titles


def print_builds(
    answer: Answer,
    failed: Iterable[BuildOutcome],
    broken: Sequence[Violation],
    *,
    json: bool = False,
    csv: bool = False,
) -> None:
    """Prints an answer, and on stderr what did not build, unless JSON says it, and which rules are broken."""
    print_answer(answer, json=json, csv=csv)
    console = message_console()
    for text in (*([] if json else _failures(failed)), *(f"breaks {violation}" for violation in broken)):
        console.print(Text(text, style="red"), soft_wrap=True)


def _failures(outcomes: Iterable[BuildOutcome]) -> list[str]:
    failed = (outcome for outcome in outcomes if isinstance(outcome, FailedBuild))
    return [f"{each.subject.title} {each.arch}: {each.error.message}" for each in failed]


def _failure_notes(outcomes: Iterable[BuildOutcome]) -> list[Note]:
    return [Note(text, "failure", whole=True) for text in _failures(outcomes)]


def built_of(outcomes: Iterable[BuildOutcome]) -> list[CompiledKernel]:
    """Returns the builds that did not fail."""
    return [outcome for outcome in outcomes if isinstance(outcome, CompiledKernel)]


def pairs_outcomes(pairs: Iterable[BuildPair]) -> list[BuildOutcome]:
    """Returns both builds of each pair."""
    return [outcome for pair in pairs for outcome in (pair.before, pair.after)]


def print_inspected(
    outcomes: Sequence[BuildOutcome], broken: Sequence[Violation], *, sass: bool, json: bool, csv: bool
) -> None:
    """Prints every kernel by itself."""
    built = built_of(outcomes)
    one = len({(outcome.subject.title, outcome.subject.workload) for outcome in outcomes}) == 1
    is_whole = len(built) == len(outcomes) and len(built) <= (_MOST_COLUMNS if one else _MOST_NAMED_COLUMNS)

    def tables(_width: int) -> Iterator[Block]:
        yield from _detail(built) if is_whole else _summary(outcomes)
        yield from _failure_notes(outcomes)
        if not built:
            yield NOTHING_BUILT

    def code(_width: int) -> Iterator[Block]:
        for each in built:
            yield printed(f"// {describe(each)} for {each.arch}, {each.resources.registers} registers")
            yield printed(listing(each.sass))

    def documents() -> list[dict[str, Any]]:
        return [kernel_document(each, broken, sass=sass) for each in outcomes]

    following = _next_step(built, is_whole) if built and not sass else None

    def document() -> list[dict[str, Any]]:
        works = [_work(each).document if isinstance(each, CompiledKernel) else None for each in outcomes]
        return [each | {"work": work} if work else each for each, work in zip(documents(), works, strict=True)]

    answer = Answer(records=documents, document=document, text=code if sass else tables, next=following)
    print_builds(answer, outcomes if sass and not csv else (), broken, json=json, csv=csv)


def printed(text: str) -> Block:
    """Returns text that is as wide as it is."""
    return lambda _console: print_text(text)


def _next_step(built: Sequence[CompiledKernel], is_whole: bool) -> Sequence[str]:
    """Returns a narrower command: one kernel of several, one architecture of several launches, or the code."""
    first = next((one for one in built if not one.subject.entry.kernel.floor), built[0])
    archs, names = {one.arch for one in built}, {one.subject.name for one in built}
    options = ["--arch", first.arch] if len(names) == 1 else []
    if is_whole or len(archs) == len(names) == 1:
        options = ["--arch", first.arch, "--sass"]
    return ["gdnbench", "inspect", first.subject.name, *options]


def describe(compiled: CompiledKernel) -> str:
    """Describes a kernel in one line: name, workload, params and language."""
    subject = compiled.subject
    params = "".join(f" {name}={value}" for name, value in subject.variant.params.items())
    return f"{subject.title}  {subject.workload}{params}  ({subject.entry.kernel.language}, {compiled.build.symbol})"


def number_text(value: QuantityValue | str) -> str:
    """Formats a value, a fraction to three digits; a dash if unknown."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _spoiled(built: Iterable[CompiledKernel]) -> list[Note]:
    """Returns a line per kernel whose grid CUDA would refuse, and per one whose products ptxas serializes."""
    refused: dict[str, str] = {}
    serialized: dict[str, str] = {}
    for each in built:
        if each.refused:
            refused[f"{each.subject.title} at {each.subject.workload}"] = each.refused
        if each.build.serialized_because:
            serialized[f"{each.subject.title} {each.arch}"] = format_serialized(each.build.serialized_because)
    return [Note(f"{name}: {why}", "failure") for found in (refused, serialized) for name, why in found.items()]


def _summary(outcomes: Sequence[BuildOutcome]) -> Iterator[Block]:
    """Yields the first numbers to compare; the others are in JSON and CSV, or the table of one kernel."""
    grouped: dict[tuple[str, str], list[BuildOutcome]] = {}
    for outcome in outcomes:
        grouped.setdefault((outcome.arch, str(outcome.subject.workload)), []).append(outcome)
    for (arch, workload), group in grouped.items():
        gpu = next((each.gpu_size for each in built_of(group)), None)
        waves = f"  waves on {gpu.name} ({gpu.sms} SMs)" if gpu else ""
        yield Table(_SUMMARY, group, title=f"{arch}  {workload}{waves}", gap=1)
    yield from _spoiled(built_of(outcomes))
    legend = "regs and spill (bytes) per thread, smem: bytes per block, instr: static count,\ntrips to memory in a row"
    yield Note(legend, "legend")


def _number(
    heading: str, read: Callable[[CompiledKernel], QuantityValue], drop: int = 0, bad: Callable[[Any], bool] = bool
) -> Column[BuildOutcome]:
    is_marked = heading in {"spill", "blocks\n/SM"}

    def show(outcome: BuildOutcome) -> Text:
        if not isinstance(outcome, CompiledKernel):
            return Text("failed" if heading == "regs" else "", style="red")
        value = read(outcome)
        return Text(number_text(value), style="red" if is_marked and bad(value) else "")

    return Column("", lambda outcome: outcome, heading, show, drop, right=True)


def _limits(outcome: BuildOutcome) -> str:
    limits = outcome.occupancy.limited_by if isinstance(outcome, CompiledKernel) else ""
    return limits.replace("shared memory", "smem").replace("registers", "regs")


_SUMMARY: Sequence[Column[BuildOutcome]] = [
    Column("", lambda each: each.subject.title, "kernel", fold=True, bottom=True),
    _number("regs", lambda each: each.resources.registers),
    _number("spill", lambda each: each.resources.spill_bytes),
    _number("smem", lambda each: each.request.shared_bytes, drop=2),
    _number("threads\n/block", lambda each: each.request.threads, drop=4),
    _number("blocks\n/SM", lambda each: each.occupancy.blocks, drop=5, bad=lambda blocks: not blocks),
    _number("occ\n%", lambda each: round(each.occupancy.percent), drop=1),
    Column("", _limits, "limited by", drop=7, fold=True),
    _number("waves", lambda each: each.waves, drop=3),
    _number("instr", lambda each: each.mix.instructions, drop=6),
    _number("trips", lambda each: each.milestones.dependent_loads),
]


def _detail(built: Sequence[CompiledKernel]) -> Iterator[Block]:
    yield from (Note(title, "title") for title in dict.fromkeys(map(describe, built)))
    one = len({compiled.subject.title for compiled in built}) == 1
    heads = [compiled.arch if one else f"{compiled.subject.title}\n{compiled.arch}" for compiled in built]
    devices = [f"{each.gpu_size.name} ({each.gpu_size.sms} SMs)" if each.gpu_size else "-" for each in built]
    mixes = [mix_rows(compiled) for compiled in built]
    names = sorted({name for mix in mixes for name in mix}, key=mix_order)
    limits = [compiled.occupancy.limited_by for compiled in built]
    rows: list[TitledRow] = [
        *_rows("resources", RESOURCES, built),
        *_rows("occupancy", OCCUPANCY, built),
        ("    of one", devices),
        ("  limited by", limits),
        *_rows("code", CODE, built),
        *((f"  {name}", [str(mix.get(name, 0)) for mix in mixes]) for name in names),
    ]
    yield titled_table(heads, rows, fold=len(heads))
    yield from _spoiled(built)
    yield Note(STATIC, "legend")
    if len({(compiled.subject.name, compiled.subject.workload) for compiled in built}) == 1:
        yield ""
        yield from work_blocks(_work(built[0]))


def _work(compiled: CompiledKernel) -> Work:
    subject, gpu = compiled.subject, compiled.gpu_size
    return work_of(subject.entry, subject.variant, subject.workload, gpu.name if gpu else "")


def _rows(name: str, quantities: Sequence[BuildQuantity], built: Sequence[CompiledKernel]) -> Iterator[TitledRow]:
    yield name, ()
    for each in quantities:
        values = [each.read(compiled) for compiled in built]
        is_known = any(value is not None for value in values) or each.key not in _ONLY_IF_KNOWN
        if is_known and (any(values) or each.key not in _ONLY_IF_ANY):
            style = "red" if each.title.startswith(_BAD_IF_ANY) and any(values) else ""
            yield f"  {each.title}", [Text(number_text(value), style=style) for value in values]


def print_changed(
    pairs: Sequence[BuildPair], broken: Sequence[Violation], *, sass: bool, json: bool = False, csv: bool = False
) -> None:
    """Prints every kernel beside its counterpart."""
    answer = Answer(
        records=lambda: [{**pair_identity(pair), **change_row(change)} for pair in pairs for change in pair.changes],
        text=lambda _width: _sass_changes(pairs) if sass else _number_changes(pairs),
        document=lambda: [pair_document(pair, broken, sass=sass) for pair in pairs],
        next=None if sass or json or csv else _next_change(pairs),
    )
    print_builds(answer, pairs_outcomes(pairs) if sass or csv else (), broken, json=json, csv=csv)


def _next_change(pairs: Sequence[BuildPair]) -> Sequence[str]:
    shown = next((pair for pair in pairs if pair.sass_diff()), None)
    if shown is None:
        return ["gdnbench", "inspect", pairs[0].after.subject.name]
    name, other = shown.after.subject.name, shown.before.subject.name
    # The earlier of two versions of one kernel is no longer there to be compared with.
    against = ["--diff", other] if other != name else []
    return ["gdnbench", "inspect", name, *against, "--arch", shown.after.arch, "--sass"]


def _sass_changes(pairs: Sequence[BuildPair]) -> Iterator[Block]:
    """Yields a unified diff per pair, as `diff` does; if the code is the same, only a message on stderr."""
    for pair in pairs:
        lines = pair.sass_diff()
        yield from map(printed, lines)
        if pair.built and not lines:
            subject = pair.after.subject
            note = f"{subject.title} for {pair.after.arch}: the same code as {pair.before.subject.title}"
            message_console().print(note, markup=False)


def _number_changes(pairs: Sequence[BuildPair]) -> Iterator[Block]:
    for pair in pairs:
        yield pair_title(pair)
        if not pair.built:
            yield NOT_BUILT
        elif pair.same:
            yield Note("  the same: every number, and the code but for names of registers and addresses")
        elif not pair.changes:
            yield Note("  the numbers are the same, the code is not: --sass shows where")
        else:
            sides = (pair.before.subject.title, pair.after.subject.title, "change")
            yield titled_table(sides, [_change_cells(each) for each in pair.changes], fold=2, folds_titles=True)
            yield from () if pair.sass_diff() else [Note("  the code is the same", "legend")]
    yield from _failure_notes(pairs_outcomes(pairs))


NOT_BUILT = Note("  one of them did not build", "failure")


def pair_title(pair: BuildPair) -> Note:
    """Returns the heading of a comparison."""
    subject = pair.after.subject
    return Note(f"{subject.title}  {subject.workload}  {pair.after.arch}, beside {pair.before.subject.title}", "title")


def _change_cells(change: BuildChange) -> TitledRow:
    before, after = change.before, change.after
    signed = ""
    if not (isinstance(before, str) or isinstance(after, str) or before is None or after is None):
        signed = f"{after - before:+.3g}" if isinstance(after - before, float) else f"{after - before:+d}"
    return change.title, (number_text(before), number_text(after), signed)


def kernel_document(outcome: BuildOutcome, broken: Sequence[Violation] = (), *, sass: bool = False) -> dict[str, Any]:
    """Returns one kernel at one workload for one architecture; without numbers if it did not build."""
    known = kernel_identity(outcome)
    if not isinstance(outcome, CompiledKernel):
        return {**known, "status": Status.BUILD_FAILED.value, "reason": outcome.error.message}
    mix, status = outcome.mix, Status.FAILED if outcome.refused else Status.OK
    return {
        **known,
        "status": status.value,
        "reason": outcome.refused,
        "breaks": [violation.rule.text for violation in broken if violation.compiled is outcome],
        **{key: quantity.read(outcome) for key, quantity in QUANTITIES.items()},
        "limited_by": outcome.occupancy.limited_by,
        "waves_on": outcome.gpu_size.name if outcome.gpu_size else "",
        "symbol": outcome.build.symbol,
        "cubin": outcome.build.cubin,
        "serialized_because": outcome.build.serialized_because,
        "mix": dict(mix.families),
        "hints": dict(mix.hints),
        "opcodes": dict(mix.opcodes),
        **({"sass": listing(outcome.sass)} if sass else {}),
    }


def kernel_identity(outcome: BuildOutcome) -> dict[str, Any]:
    """Returns what was built, and for which architecture."""
    subject = outcome.subject
    return {
        "kernel": subject.variant.kernel,
        "label": subject.title,
        "language": subject.entry.kernel.language,
        "params": dict(subject.variant.params),
        **subject.workload.cells,
        "arch": outcome.arch,
    }


def pair_document(pair: BuildPair, broken: Sequence[Violation], *, sass: bool) -> dict[str, Any]:
    """Returns two kernels and their differences, for JSON."""
    document = {
        "before": kernel_document(pair.before),
        "after": kernel_document(pair.after, broken),
        "same": pair.same,
        "changes": [change_row(change) for change in pair.changes],
    }
    return document | ({"sass_diff": pair.sass_diff()} if sass else {})


def pair_identity(pair: BuildPair) -> dict[str, Any]:
    """Returns the compared kernels and the architecture."""
    names = {"before": pair.before.subject.title, "after": pair.after.subject.title}
    return {**names, **pair.after.subject.workload.cells, "arch": pair.after.arch}


def change_row(change: BuildChange) -> dict[str, Any]:
    """Returns one difference."""
    return {"quantity": change.key, "value_before": change.before, "value_after": change.after}
