"""`gdnbench inspect`: what did the compiler make of it?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.errors import UsageError
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
    for_model: Annotated[
        bool, typer.Option("--for-model", help="With --sass: print it for a language model, by blocks and loops.")
    ] = False,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="What --for-model may take; 2000 if not given.")
    ] = None,
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

    --sass --for-model tells the code to a language model within a budget of
    tokens: arithmetic is summed up; every load, store, wait, atomic, branch and
    exit is there, by blocks and loops, with live registers and source lines.
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
    from gdnbench.report.outline import DEFAULT_BUDGET, print_for_model, print_loops
    from gdnbench.report.schedule import print_schedule_pairs, print_schedules
    from gdnbench.verbs.progress import watch

    _check_form(ctx)
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
    elif for_model:
        print_for_model(own, broken, DEFAULT_BUDGET if budget is None else budget, json=json)
    else:
        print_inspected(own, broken, sass=sass, json=json, csv=csv)
    raise typer.Exit(exit_code(found, broken))


def _check_form(ctx: typer.Context) -> None:
    """Refuses options that ask for two forms at once, or for a part of a form that is not requested."""
    options.check_mode(ctx, "for_model", ("budget",), ("schedule", "loops", "diff", "csv"))
    options.check_mode(ctx, "loops", (), ("sass", "schedule", "diff", "csv"))
    options.check_mode(ctx, "schedule", (), ("sass", "csv"))
    if ctx.params["for_model"] and not ctx.params["sass"]:
        raise UsageError("--for-model is a form of --sass", "add --sass")
