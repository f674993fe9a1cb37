"""`gdnbench inspect`: what did the compiler make of it?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import (
    AlsoKernels,
    Batches,
    Csv,
    Heads,
    Json,
    Kernels,
    Op,
    Quiet,
    joined,
    sizes,
    terms,
)


def inspect(
    kernels: Kernels = None,
    kernel: AlsoKernels = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(metavar="sm_N,…", help="Targets; those of the GPUs here, else sm_90 and sm_100."),
    ] = None,
    op: Op = "decode",
    shape: Batches = None,
    heads: Heads = None,
    diff: Annotated[
        str, typer.Option(metavar="OTHER", help="Show what changed from another kernel, or git:REV for this one there.")
    ] = "",
    sass: Annotated[bool, typer.Option("--sass", help="Print the machine code; with --diff, a diff of it.")] = False,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Print what ptxas scheduled: issue cycles, scoreboards, waits.")
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE,…", help="Exit 1 where one holds: spills,regs>64,smem>48K,occupancy<50."),
    ] = None,
    json: Json = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Show what the compiler made of kernels, for any architecture. Needs no GPU.

    Registers, spills, shared memory, occupancy and what limits it, waves, and the
    instructions: how wide it loads, with which cache hints. Counts are static: a
    loop's body counts once. Exits with 6 if a kernel does not build.

    --schedule reads from the encodings when each instruction issues and which ones
    it waits for, from the first to the final EXIT. Conditional branches fall
    through; with --diff, two kernels' numbers stand side by side.
    """
    from gdnbench.bench.request import find_op, parse_shapes
    from gdnbench.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.errors import UsageError
    from gdnbench.inspection.archs import choose_archs, device_of
    from gdnbench.inspection.difference import Pair, others
    from gdnbench.inspection.examine import examine
    from gdnbench.inspection.rules import breaches, exit_code, parse_rules
    from gdnbench.inspection.subject import choose_subjects
    from gdnbench.machine import list_gpus
    from gdnbench.report.inspect_output import print_changed, print_inspected
    from gdnbench.report.inspect_schedule import print_schedule_pairs, print_schedules

    if sass and schedule:
        raise UsageError("--sass and --schedule are two listings", "ask for one; --schedule shows the code, too")
    rules = parse_rules(joined(fail_on))
    gpus = list_gpus()
    archs = choose_archs(joined(arch), gpus)
    catalog = load_catalog()
    shapes = parse_shapes(find_op(catalog, op), sizes(shape), joined(heads))
    subjects, notes = choose_subjects(catalog, op, terms(kernels, kernel), shapes)
    compared = others(subjects, catalog, op, diff) if diff else ()
    with watch(quiet=quiet) as observer:
        for note in notes:
            observer.note(note)
        found = examine([*subjects, *compared], archs, lambda name: device_of(name, gpus), observer)
    own, rest = found[: len(subjects) * len(archs)], found[len(subjects) * len(archs) :]
    broken = breaches(own, rules)
    if diff:
        pairs = [Pair(before, after) for before, after in zip(rest, own, strict=True)]
        if schedule:
            print_schedule_pairs(pairs, broken, json=json, csv=csv)
        else:
            print_changed(pairs, broken, sass=sass, json=json, csv=csv)
    elif schedule:
        print_schedules(own, broken, json=json, csv=csv)
    else:
        print_inspected(own, broken, sass=sass, json=json, csv=csv)
    raise typer.Exit(exit_code(found, broken))
