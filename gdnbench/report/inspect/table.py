"""Compiled kernels and their schedules as tables: many with a row each, few with a column each, two with changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gdnbench.codegen.control import Control, OutstandingInstruction, ScoreboardWait
from gdnbench.codegen.schedule import (
    EncodedInstruction,
    InstructionSchedule,
    IssuedInstruction,
    ScheduleSummary,
    SharedScoreboard,
)
from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel, GpuSize
from gdnbench.inspect.quantities import (
    CODE,
    OCCUPANCY,
    RESOURCES,
    SCHEDULE_SECTIONS,
    SCHEDULE_WAITS,
    BuildChange,
    BuildPair,
    BuildQuantity,
    QuantityValue,
    mix_order,
    mix_rows,
)
from gdnbench.model.case import tell_serialized
from gdnbench.render.console import FittedTable, NameText
from gdnbench.wording import plural

STATIC = "counts are static: a loop's body counts once however often it runs"

_HEADINGS = (
    "regs",
    "spill",
    "smem",
    "threads\n/block",
    "blocks\n/SM",
    "occ\n%",
    "limited by",
    "waves",
    "instr",
    "trips",
)
_TEXT = {"limited by"}
_DROPPABLE = ("limited by", "instr", "blocks/SM", "threads/block", "waves", "smem", "occ %")

_ONLY_IF_ANY = {"spill_stores", "spill_loads", "predicated"}
_ONLY_IF_KNOWN = {"serialized"}
_BAD_IF_ANY = ("spill", "serialized")  # beginnings of their titles

TextRow = tuple[str, list[str]]


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


def spilled(compiled: CompiledKernel) -> Text:
    """Returns the bytes spilled per thread, red unless 0."""
    count = compiled.resources.spill_bytes
    return Text(str(count), style="red" if count else "")


def refused_launches(outcomes: Sequence[BuildOutcome]) -> list[Text]:
    """Returns a line per kernel whose grid CUDA would refuse."""
    told = {
        f"{outcome.subject.title} at {outcome.subject.workload}": outcome.refused
        for outcome in outcomes
        if isinstance(outcome, CompiledKernel) and outcome.refused
    }
    return [Text(f"{name}: {why}", style="red") for name, why in told.items()]


def serialized_products(outcomes: Sequence[BuildOutcome]) -> list[Text]:
    """Returns a line per kernel whose warpgroup products ptxas serializes, with its reason."""
    told = {
        f"{outcome.subject.title} {outcome.arch}": tell_serialized(outcome.build.serialized_because)
        for outcome in outcomes
        if isinstance(outcome, CompiledKernel) and outcome.build.serialized_because
    }
    return [Text(f"{name}: {why}", style="red") for name, why in told.items()]


def waves_text(compiled: CompiledKernel) -> str:
    """Returns how often the grid fills the GPU."""
    return number_text(compiled.waves)


def summary_table(outcomes: Sequence[BuildOutcome]) -> Group:
    """Makes the table of the first numbers to compare; the others are in JSON and CSV, or the table of one kernel."""
    grouped: dict[tuple[str, str], list[BuildOutcome]] = {}
    for outcome in outcomes:
        grouped.setdefault((outcome.arch, str(outcome.subject.workload)), []).append(outcome)
    parts = [part for (arch, workload), group in grouped.items() for part in _arch_table(arch, workload, group)]
    legend = "regs and spill (bytes) per thread, smem: bytes per block, instr: static count,\ntrips to memory in a row"
    return Group(*parts, *refused_launches(outcomes), *serialized_products(outcomes), Text(legend, style="dim"))


def _arch_table(arch: str, workload: str, outcomes: Sequence[BuildOutcome]) -> tuple[Text, FittedTable]:
    gpu = next((one.gpu_size for one in outcomes if isinstance(one, CompiledKernel)), None)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("kernel", overflow="fold", vertical="bottom")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in _TEXT else "right", no_wrap=heading not in _TEXT)
    for outcome in outcomes:
        table.add_row(Text(outcome.subject.title), *_cells(outcome))
    return Text(f"{arch}  {workload}{_counted_for(gpu)}", style="bold"), FittedTable(table, _DROPPABLE)


def _counted_for(gpu: GpuSize | None) -> str:
    return f"  waves on {gpu.name} ({gpu.sms} SMs)" if gpu else ""


def _cells(outcome: BuildOutcome) -> list[Text]:
    if not isinstance(outcome, CompiledKernel):
        return [Text("failed", style="red")]
    resident = outcome.occupancy
    return [
        Text(str(outcome.resources.registers)),
        spilled(outcome),
        Text(str(outcome.shared_bytes)),
        Text(str(outcome.threads)),
        Text(str(resident.blocks), style="" if resident.blocks else "red"),
        Text(f"{resident.percent:.0f}"),
        Text(resident.limited_by.replace("shared memory", "smem").replace("registers", "regs")),
        Text(waves_text(outcome)),
        Text(str(outcome.mix.instructions)),
        Text(number_text(outcome.milestones.dependent_loads)),
    ]


def detail_table(kernels: Sequence[CompiledKernel]) -> Group:
    """Makes a table of resources, occupancy and instructions of up to four builds."""
    subjects = dict.fromkeys(compiled.subject.title for compiled in kernels)
    titles = dict.fromkeys(describe(compiled) for compiled in kernels)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for compiled in kernels:
        heading = compiled.arch if len(subjects) == 1 else f"{compiled.subject.title}\n{compiled.arch}"
        table.add_column(NameText(heading), justify="right", overflow="fold")
    _section(table, "resources", _rows(RESOURCES, kernels))
    _section(table, "occupancy", [*_rows(OCCUPANCY, kernels), *_names(kernels)])
    _section(table, "code", [*_rows(CODE, kernels), *_mix(kernels)])
    return Group(
        *(Text(title, style="bold") for title in titles),
        table,
        *refused_launches(kernels),
        *serialized_products(kernels),
        Text(STATIC, style="dim"),
    )


def _section(table: Table, name: str, rows: Iterable[TextRow]) -> None:
    table.add_row(Text(name, style="bold"))
    for title, cells in rows:
        style = "red" if title.startswith(_BAD_IF_ANY) and any(cell not in {"0", "-"} for cell in cells) else ""
        table.add_row(Text(f"  {title}"), *(Text(cell, style=style) for cell in cells))


def _rows(quantities: Sequence[BuildQuantity], kernels: Sequence[CompiledKernel]) -> list[TextRow]:
    rows = []
    for quantity in quantities:
        values = [quantity.read(compiled) for compiled in kernels]
        known = any(value is not None for value in values) or quantity.key not in _ONLY_IF_KNOWN
        if known and (any(values) or quantity.key not in _ONLY_IF_ANY):
            rows.append((quantity.title, [number_text(value) for value in values]))
    return rows


def _names(kernels: Sequence[CompiledKernel]) -> list[TextRow]:
    devices = [f"{one.gpu_size.name} ({one.gpu_size.sms} SMs)" if one.gpu_size else "-" for one in kernels]
    return [
        ("  of one", devices),
        ("limited by", [compiled.occupancy.limited_by for compiled in kernels]),
    ]


def _mix(kernels: Sequence[CompiledKernel]) -> list[TextRow]:
    mixes = [mix_rows(compiled) for compiled in kernels]
    names = sorted({name for mix in mixes for name in mix}, key=mix_order)
    return [(name, [str(mix.get(name, 0)) for mix in mixes]) for name in names]


def difference_table(pair: BuildPair) -> Group:
    """Makes a table of the numbers that differ in a pair, or says that none does."""
    heading = pair_title(pair)
    if not pair.built:
        return Group(heading, not_built())
    if pair.same:
        return Group(heading, Text("  the same: every number, and the code but for names of registers and addresses"))
    if not pair.changes:
        return Group(heading, Text("  the numbers are the same, the code is not: --sass shows where"))
    alike = [] if pair.sass_diff() else [Text("  the code is the same", style="dim")]
    return Group(heading, _changes_table(pair), *alike)


def not_built() -> Text:
    """Returns the text for a pair of which one did not build."""
    return Text("  one of them did not build", style="red")


def pair_title(pair: BuildPair) -> Text:
    """Returns the heading of a comparison."""
    subject = pair.after.subject
    said = f"{subject.title}  {subject.workload}  {pair.after.arch}, beside {pair.before.subject.title}"
    return Text(said, style="bold")


def _changes_table(pair: BuildPair) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    table.add_column(Text(pair.before.subject.title), justify="right", overflow="fold")
    table.add_column(Text(pair.after.subject.title), justify="right", overflow="fold")
    table.add_column("change", justify="right", no_wrap=True)
    for change in pair.changes:
        table.add_row(Text(change.title), number_text(change.before), number_text(change.after), Text(_signed(change)))
    return table


def _signed(change: BuildChange) -> str:
    before, after = change.before, change.after
    if isinstance(before, str) or isinstance(after, str) or before is None or after is None:
        return ""
    return f"{after - before:+.3g}" if isinstance(after - before, float) else f"{after - before:+d}"


_LEGEND = (
    "cycles: sums of stall counts from the first instruction, as if nothing were waited for; waits: instructions that "
    "wait, by what they wait for. Conditional branches fall through, and counts are static: a loop's body counts once. "
    "What stands behind the final EXIT does not count."
)

CountRow = tuple[str, list[int | None]]


def schedule_table(columns: Sequence[tuple[str, ScheduleSummary]]) -> Table:
    """Makes a column of numbers per schedule; for two also the change from the first to the second."""
    found = [one for _, one in columns]
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    grid.add_column("")
    for heading, _ in columns:
        grid.add_column(Text(heading), justify="right", overflow="fold")
    if len(found) == 2:
        grid.add_column("change", justify="right", no_wrap=True)
    for title, rows in _sections(found):
        _schedule_section(grid, title, rows)
    return grid


def schedule_remarks(found: ScheduleSummary, name: str = "") -> Iterable[str]:
    """Yields lines on what no number says: loads that wait together or come late, and code that was not followed.

    `name` is given for one kernel of several; late loads, which may be many, are then not listed.
    """
    late = () if name else _late(found)
    head = f"{name}: " if name else ""
    for text in (*map(_shared, found.shared), *late, *_unfollowed(found)):
        yield from wrap(f"{head}{text}", WIDTH, subsequent_indent="  ")


def schedule_legend() -> Iterable[str]:
    """Returns the meaning of the cycles."""
    return wrap(_LEGEND, WIDTH)


def _sections(found: Sequence[ScheduleSummary]) -> Iterable[tuple[str, list[CountRow]]]:
    for title, quantities in SCHEDULE_SECTIONS.items():
        yield title, [(each.title, [each.read(one) for one in found]) for each in quantities]
    for title, read in SCHEDULE_WAITS.values():
        counts = [read(one) for one in found]
        names = dict.fromkeys(name for one in counts for name in one)
        yield title, [(f"for {name}", [one.get(name, 0) for one in counts]) for name in names]


def _schedule_section(grid: Table, title: str, rows: Sequence[CountRow]) -> None:
    if rows:
        grid.add_row(Text(title, style="bold"))
    for name, values in rows:
        cells = ["-" if value is None else str(value) for value in values]
        grid.add_row(Text(f"  {name}"), *cells, *([_change(*values)] if len(values) == 2 else []))


def _change(before: int | None, after: int | None) -> str:
    return "" if before is None or after is None or before == after else f"{after - before:+d}"


def _shared(shared: SharedScoreboard) -> str:
    fewest, most = min(shared.sizes), max(shared.sizes)
    sizes = f"{most} bytes" if fewest == most else f"{fewest} to {most} bytes"
    loads = f"{len(shared.loads)} loads of {sizes} share scoreboard {shared.scoreboard}"
    return f"{loads}: the first use of any, at cycle {shared.cycle}, waits for all"


def _late(found: ScheduleSummary) -> Iterable[str]:
    for step in found.late_loads:
        yield f"behind a wait, at cycle {step.cycle}: {step.instruction}"


def _unfollowed(found: ScheduleSummary) -> Iterable[str]:
    if found.loops:
        yield f"{plural(found.loops, 'branch', 'branches')} back: what is between counts once"
    if found.calls:
        yield f"{plural(found.calls, 'call')} on the way: the code of what is called does not count"


WIDTH = 80
"""Columns of printed schedules, as of a terminal."""

_STEP_HEADINGS = ("at", "cycle", "stall", "sets", "waits for", "instruction")

LISTING_LEGEND = (
    "// sets w5: holds scoreboard 5 until its result is there; r5: until it has read",
    "// its operands, so that they may be overwritten. cycle -: not on the way",
)


def schedule_listing(schedule: InstructionSchedule) -> Iterator[str]:
    """Yields the heading and lines, as wide as a terminal."""
    cells = [_line_cells(one) for one in schedule.code]
    width = max([len(_STEP_HEADINGS[4]), *(len(wait) for _, waits, _ in cells for wait in waits)])
    yield from _wrapped(_STEP_HEADINGS[:4], [_STEP_HEADINGS[4]], _STEP_HEADINGS[5], width)
    for numbers, waits, instruction in cells:
        yield from _wrapped(numbers, waits, instruction, width)


def _wrapped(numbers: Iterable[str], waits: list[str], instruction: str, width: int) -> Iterator[str]:
    address, cycle, stall, sets = numbers
    head = f"{address:>4} {cycle:>5} {stall:>5} {sets:5}"
    texts = wrap(instruction, WIDTH - len(head) - width - 2, subsequent_indent="  ", break_on_hyphens=False)
    for at, (wait, text) in enumerate(zip_longest(waits, texts, fillvalue="")):
        yield f"{head if at == 0 else '':{len(head)}} {wait:{width}} {text}".rstrip()


def _line_cells(one: EncodedInstruction) -> tuple[tuple[str, str, str, str], list[str], str]:
    step = one if isinstance(one, IssuedInstruction) else None
    numbers = (one.instruction.address, str(step.cycle) if step else "-", str(one.control.stall), _sets(one.control))
    named = [line for wait in step.waits for line in _waits_for(wait)] if step else [_numbers(one.control.waits)]
    # The encoding also says which operands the register cache keeps, which would only widen the lines.
    return numbers, named or [""], str(one.instruction).replace(".reuse", "")


def _numbers(scoreboards: Iterable[int]) -> str:
    return " ".join(map(str, scoreboards))


def _sets(control: Control) -> str:
    """Returns the scoreboards that an instruction holds: `w5` until its result, `r5` until its operands are read."""
    held = (("w", control.write_scoreboard), ("r", control.read_scoreboard))
    return " ".join(f"{kind}{number}" for kind, number in held if number is not None)


def _waits_for(wait: ScoreboardWait) -> Iterator[str]:
    """Yields what an instruction waits for: `w5 LDG`, `w5 7 LDG` for seven; only the number if nothing holds it."""
    counts = Counter((_kind(hold), hold.instruction.name) for hold in wait.holds)
    for (kind, name), count in counts.items():
        yield f"{kind}{wait.scoreboard} {name}" if count == 1 else f"{kind}{wait.scoreboard} {count} {name}"
    if not counts:
        yield str(wait.scoreboard)


def _kind(hold: OutstandingInstruction) -> str:
    return "r" if hold.reads else "w"
