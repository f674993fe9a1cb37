"""`gdnbench inspect`: what did the compiler make of it? Also its schedules, and what a trip of a loop takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Annotated, Any

import typer

from gdnbench.catalog.catalog import find_op, load_catalog
from gdnbench.catalog.request import parse_near_default
from gdnbench.codegen.sass import Control, ScoreboardWait
from gdnbench.codegen.schedule import EncodedInstruction, InstructionSchedule, IssuedInstruction, ScheduleSummary
from gdnbench.inspect.compiled import (
    BuildOutcome,
    CompiledKernel,
    build_subjects,
    choose_archs,
    choose_subjects,
    fitting_archs,
    gpu_size_of,
)
from gdnbench.inspect.loops import OutermostLoop, loops_of
from gdnbench.inspect.quantities import (
    SCHEDULE_SECTIONS,
    SCHEDULE_WAITS,
    BuildPair,
    Violation,
    exit_code,
    find_counterparts,
    find_violations,
    is_revision,
    parse_rules,
    schedule_numbers,
)
from gdnbench.machine import gpus
from gdnbench.process.events import NoteMade
from gdnbench.render.table import Answer, Block, Column, Note, Table, TitledRow, titled_table
from gdnbench.report.inspect import (
    NOT_BUILT,
    NOTHING_BUILT,
    built_of,
    describe,
    kernel_document,
    pair_document,
    pair_title,
    pairs_outcomes,
    print_builds,
    print_changed,
    print_inspected,
    printed,
)
from gdnbench.verbs import options
from gdnbench.verbs.progress import watch
from gdnbench.wording import plural


def inspect(
    ctx: typer.Context,
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    arch: Annotated[
        list[str] | None, typer.Option(metavar="sm_N,…", help="Targets; those of the GPUs here, else sm_90 and sm_100.")
    ] = None,
    op: options.OpOrDecodeOption = "",
    shape: options.ShapesOption = None,
    diff: Annotated[
        str, typer.Option(metavar="OTHER", help="Show what changed from another kernel, or git:REV for this one there.")
    ] = "",
    sass: Annotated[bool, typer.Option("--sass", help="Print the machine code; with --diff, a diff of it.")] = False,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Print what ptxas scheduled: issue cycles, scoreboards, waits.")
    ] = False,
    loops: Annotated[
        bool, typer.Option("--loops", help="Print the outermost loops: a trip's instructions, and of which kinds.")
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE,…", help="Exit 1 where one holds: spills,regs>64,smem>48K,occupancy<50."),
    ] = None,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Show what the compiler made of kernels, for any architecture. Needs no GPU.

    Registers, spills, whether ptxas serializes wgmma, shared memory, occupancy and
    what limits it, waves, and the instructions: how wide it loads, with which cache
    hints. Counts are static: a loop's body counts once. Exits with 6 if a kernel
    does not build, and with 8 if CUDA would refuse its launch.

    --schedule reads from the encodings when each instruction issues and which ones
    it waits for, from the first to the final EXIT. Conditional branches fall
    through; with --diff, two kernels' numbers stand side by side.

    --loops counts a trip of each outermost loop, which in a persistent kernel is a
    tile: where warps do different work, each role has a loop of its own.
    """
    options.check_mode(ctx, "loops", (), ("sass", "schedule", "diff", "csv"))
    options.check_mode(ctx, "schedule", (), ("sass", "csv"))
    rules = parse_rules(options.joined(fail_on))
    present = gpus.list_gpus()
    wanted = options.joined(arch)
    archs = choose_archs(wanted, present)
    catalog = load_catalog()
    names = options.terms(kernels, kernel)
    op = options.op_meant(catalog, op, [*names, *([] if is_revision(diff) else [diff])], quiet=quiet)
    workloads = parse_near_default(find_op(catalog, op), options.sizes(shape))
    subjects, notes = choose_subjects(catalog, op, names, workloads)
    compared = find_counterparts(subjects, catalog, op, diff) if diff else ()
    if not wanted:
        archs, left_out = fitting_archs(archs, [*subjects, *compared])
        notes += left_out
    with watch(quiet=quiet) as observer:
        for note in notes:
            observer(NoteMade(note))
        found = build_subjects([*subjects, *compared], archs, lambda name: gpu_size_of(name, present), observer)
    own, rest = found[: len(subjects) * len(archs)], found[len(subjects) * len(archs) :]
    broken = find_violations(own, rules)
    if diff:
        pairs = [BuildPair(before, after) for before, after in zip(rest, own, strict=True)]
        if schedule:
            print_schedule_pairs(pairs, broken, json=json)
        else:
            print_changed(pairs, broken, sass=sass, json=json, csv=csv)
    elif loops:
        print_loops(own, broken, json=json)
    elif schedule:
        print_schedules(own, broken, json=json)
    else:
        print_inspected(own, broken, sass=sass, json=json, csv=csv)
    raise typer.Exit(exit_code(found, broken))


WIDTH = 80
"""Columns of printed schedules, as of a terminal."""

_LEGEND = (
    "cycles: sums of stall counts from the first instruction, as if nothing were waited for; waits: instructions that "
    "wait, by what they wait for. Conditional branches fall through, and counts are static: a loop's body counts once. "
    "What stands behind the final EXIT does not count."
)
_LISTING_LEGEND = (
    "// sets w5: holds scoreboard 5 until its result is there; r5: until it has read",
    "// its operands, so that they may be overwritten. cycle -: not on the way",
)
_STEP_HEADINGS = ("at", "cycle", "stall", "sets", "waits for", "instruction")


def print_schedules(outcomes: Sequence[BuildOutcome], broken: Sequence[Violation], *, json: bool) -> None:
    """Prints each build's schedule: its numbers, then its code."""
    built = built_of(outcomes)
    answer = Answer(
        text=lambda _width: [block for each in built for block in _schedule_text(each)],
        document=lambda: [kernel_document(each, broken) | _schedule(each) for each in outcomes],
    )
    print_builds(answer, outcomes, broken, json=json)


def _schedule_text(compiled: CompiledKernel) -> Iterator[Block]:
    found = compiled.milestones
    yield Note(describe(compiled), "title")
    yield _numbers_table([(compiled.arch, found)])
    lines = [*_remarks(found), *wrap(_LEGEND, WIDTH), "", *_LISTING_LEGEND, *schedule_listing(compiled.schedule), ""]
    yield from map(printed, lines)


def print_schedule_pairs(pairs: Sequence[BuildPair], broken: Sequence[Violation], *, json: bool) -> None:
    """Prints the numbers of each kernel's schedule beside its counterpart's."""
    shown = next(iter(built_of(pair.after for pair in pairs)), None)
    answer = Answer(
        text=lambda _width: [*_pairs_text(pairs), *([] if shown else [NOTHING_BUILT])],
        document=lambda: [_pair_document(pair, broken) for pair in pairs],
        next=["gdnbench", "inspect", shown.subject.name, "--schedule", "--arch", shown.arch] if shown else None,
    )
    print_builds(answer, pairs_outcomes(pairs), broken, json=json)


def _pairs_text(pairs: Sequence[BuildPair]) -> Iterator[Block]:
    for pair in pairs:
        yield pair_title(pair)
        both = [(one.subject.title, one.milestones) for one in pair.built]
        yield _numbers_table(both) if both else NOT_BUILT
        yield from (printed(line) for name, found in both for line in _remarks(found, name))
    if any(pair.built for pair in pairs):
        yield from map(printed, wrap(_LEGEND, WIDTH))


def _numbers_table(columns: Sequence[tuple[str, ScheduleSummary]]) -> Table[TitledRow]:
    """Returns a column of numbers per schedule; for two also the change from the first to the second."""
    found = [each for _, each in columns]
    rows: list[TitledRow] = []
    for title, quantities in SCHEDULE_SECTIONS.items():
        rows += [(title, ()), *(_row(each.title, [each.read(one) for one in found]) for each in quantities)]
    for title, read in SCHEDULE_WAITS.values():
        counts = [read(one) for one in found]
        names = dict.fromkeys(name for one in counts for name in one)
        rows += [(title, ())] if names else []
        rows += [_row(f"for {name}", [one.get(name, 0) for one in counts]) for name in names]
    heads = [*(heading for heading, _ in columns), *(["change"] if len(found) == 2 else [])]
    return titled_table(heads, rows, fold=len(columns), folds_titles=True)


def _row(title: str, values: Sequence[int | None]) -> TitledRow:
    cells = ["-" if value is None else str(value) for value in values]
    if len(values) == 2:
        before, after = values
        cells.append("" if before is None or after is None or before == after else f"{after - before:+d}")
    return f"  {title}", cells


def _remarks(found: ScheduleSummary, name: str = "") -> Iterator[str]:
    """Yields what no number says: loads that wait together or come late, and code not followed; `name` for several."""
    remarks = []
    for shared in found.shared:
        fewest, most = min(shared.sizes), max(shared.sizes)
        sizes = f"{most} bytes" if fewest == most else f"{fewest} to {most} bytes"
        loads = f"{len(shared.loads)} loads of {sizes} share scoreboard {shared.scoreboard}"
        remarks.append(f"{loads}: the first use of any, at cycle {shared.cycle}, waits for all")
    late = () if name else found.late_loads
    remarks += [f"behind a wait, at cycle {step.cycle}: {step.instruction}" for step in late]
    if found.loops:
        remarks.append(f"{plural(found.loops, 'branch', 'branches')} back: what is between counts once")
    if found.calls:
        remarks.append(f"{plural(found.calls, 'call')} on the way: the code of what is called does not count")
    for remark in remarks:
        yield from wrap(f"{name}: {remark}" if name else remark, WIDTH, subsequent_indent="  ")


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
    scoreboards = " ".join(map(str, one.control.waits))
    waits = [line for wait in step.waits for line in _waits_for(wait)] if step else [scoreboards]
    # The encoding also says which operands the register cache keeps, which would only widen the lines.
    return numbers, waits or [""], str(one.instruction).replace(".reuse", "")


def _sets(control: Control) -> str:
    """Returns the scoreboards that an instruction holds: `w5` until its result, `r5` until its operands are read."""
    held = (("w", control.write_scoreboard), ("r", control.read_scoreboard))
    return " ".join(f"{kind}{number}" for kind, number in held if number is not None)


def _waits_for(wait: ScoreboardWait) -> Iterator[str]:
    """Yields what an instruction waits for: `w5 LDG`, `w5 7 LDG` for seven; only the number if nothing holds it."""
    counts = Counter(("r" if hold.reads else "w", hold.instruction.name) for hold in wait.holds)
    for (kind, name), count in counts.items():
        yield f"{kind}{wait.scoreboard} {name}" if count == 1 else f"{kind}{wait.scoreboard} {count} {name}"
    if not counts:
        yield str(wait.scoreboard)


def _schedule(outcome: BuildOutcome) -> dict[str, Any]:
    """Returns a schedule's numbers for JSON; cycles are issue cycles."""
    if not isinstance(outcome, CompiledKernel):
        return {}
    found = outcome.milestones
    numbers = {
        **schedule_numbers(found),
        **{key: dict(read(found)) for key, (_, read) in SCHEDULE_WAITS.items()},
        "loops": found.loops,
        "calls": found.calls,
        "late": [
            {"address": step.instruction.address, "cycle": step.cycle, "instruction": str(step.instruction)}
            for step in found.late_loads
        ],
        "shared_scoreboards": [
            {
                "scoreboard": shared.scoreboard,
                "waited_at": shared.cycle,
                "loads": [load.instruction.address for load in shared.loads],
                "bytes": shared.sizes,
            }
            for shared in found.shared
        ],
    }
    return {"schedule": numbers}


def _pair_document(pair: BuildPair, broken: Sequence[Violation]) -> dict[str, Any]:
    known = pair_document(pair, broken, sass=False)
    both = {"before": pair.before, "after": pair.after}
    return known | {key: known[key] | _schedule(one) for key, one in both.items()}


_LOOPS_LEGEND = (
    "loops that lie in no other, by the line that goes back; a trip: instructions\n"
    "on the shortest and on the longest way round; what the loop has: all of its\n"
    "code, that of loops within it once"
)


def print_loops(outcomes: Sequence[BuildOutcome], broken: Sequence[Violation], *, json: bool) -> None:
    """Prints the loops of each build; raises MachineError if `nvdisasm` is absent or cannot read a cubin."""
    found = [(compiled, loops_of(compiled)) for compiled in built_of(outcomes)]
    loops = {compiled.build.cubin: {"loops": list(map(_loop, each))} for compiled, each in found}
    first = found[0][0] if found else None
    answer = Answer(
        text=lambda _width: [
            *(block for each in found for block in _loops_text(*each)),
            *([] if found else [NOTHING_BUILT]),
        ],
        document=lambda: [
            (doc := kernel_document(each, broken)) | loops.get(doc.get("cubin", ""), {}) for each in outcomes
        ],
        next=["gdnbench", "inspect", first.subject.name, "--arch", first.arch, "--sass"] if first else None,
    )
    print_builds(answer, outcomes, broken, json=json)


def _loops_text(compiled: CompiledKernel, loops: Sequence[OutermostLoop]) -> Iterator[Block]:
    yield Note(f"{describe(compiled)} for {compiled.arch}", "title")
    if loops:
        yield Table(_LOOP_COLUMNS, loops, notes=[Note(_LOOPS_LEGEND, "legend")])
    else:
        yield Note("no loops: each instruction is issued once at most")


def _trip(loop: OutermostLoop) -> str:
    least, most = loop.trip.shortest, loop.trip.longest
    return str(least) if least == most else f"{least}-{most}"


_LOOP_COLUMNS: Sequence[Column[OutermostLoop]] = [
    Column("", lambda loop: loop, "loop", lambda loop: str(loop.line or "line unknown")),
    Column("", lambda loop: loop, "a trip", _trip, right=True),
    Column(
        "",
        lambda loop: loop,
        "what the loop has",
        lambda loop: ", ".join(f"{count} {name}" for name, count in loop.families.items()),
        fold=True,
    ),
]


def _loop(loop: OutermostLoop) -> dict[str, Any]:
    return {
        "line": str(loop.line) if loop.line else None,
        "shortest_trip_instructions": loop.trip.shortest,
        "longest_trip_instructions": loop.trip.longest,
        "loops_within": loop.within,
        "instructions": loop.instructions,
        "families": dict(loop.families),
    }
