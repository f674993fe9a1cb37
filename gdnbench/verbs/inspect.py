"""`gdnbench inspect`: what did the compiler make of it?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.process.events import NoteMade
from gdnbench.verbs import options


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
    from gdnbench.catalog.catalog import find_op, load_catalog
    from gdnbench.catalog.request import parse_near_default
    from gdnbench.inspect.compiled import build_subjects, choose_archs, choose_subjects, fitting_archs, gpu_size_of
    from gdnbench.inspect.quantities import (
        BuildPair,
        exit_code,
        find_counterparts,
        find_violations,
        is_revision,
        parse_rules,
    )
    from gdnbench.machine.gpus import list_gpus
    from gdnbench.report.inspect import print_changed, print_inspected
    from gdnbench.report.schedule import print_loops, print_schedule_pairs, print_schedules
    from gdnbench.verbs.progress import watch

    options.check_mode(ctx, "loops", (), ("sass", "schedule", "diff", "csv"))
    options.check_mode(ctx, "schedule", (), ("sass", "csv"))
    rules = parse_rules(options.joined(fail_on))
    gpus = list_gpus()
    wanted = options.joined(arch)
    archs = choose_archs(wanted, gpus)
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
        found = build_subjects([*subjects, *compared], archs, lambda name: gpu_size_of(name, gpus), observer)
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
