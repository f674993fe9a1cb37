"""`gdnbench ncu`: what do the hardware counters say?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.origin import PROFILES
from gdnbench.verbs import options


def ncu(
    kernels: options.ProfiledArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    diff: Annotated[
        str, typer.Option(metavar="OTHER", help="Show what moved from KERNEL to this one, a kernel or a file.")
    ] = "",
    stored: Annotated[bool, typer.Option("--import", help="Read reports (.ncu-rep, .csv); needs no GPU.")] = False,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Launches to profile of each; 1 by default, 3 with --diff.")
    ] = None,
    seed: options.InputsSeedOption = 0,
    path: Annotated[Path | None, typer.Option("--ncu", help="Nsight Compute; found by itself by default.")] = None,
    profiles: options.ProfilesOption = PROFILES,
    limit: options.KernelLimitOption = 300.0,
    for_model: Annotated[
        bool, typer.Option("--for-model", help="Print it for a language model: what bounds it and what it does most.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print what each source line costs, beside its instructions.")
    ] = False,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Put the hardware counters of kernels side by side, with Nsight Compute.

    Each kernel is launched in a process of its own, warmed, and profiled alone: every
    section, the clocks as they are, the caches flushed before each replay. The reports
    stay in profiles/ncu, with their metrics as CSV beside them.

    --for-model tells a profile to a language model in less than 4 KB of JSON: what
    bounds the kernel, where its cycles go, bytes by level, pipes, stalls, occupancy
    and launch, the largest first; with --diff, what changed.

    --lines shows where warps stood when they were sampled and why, and what each line
    moves, by source line and the instructions behind it.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.select import resolve_op
    from gdnbench.errors import UsageError
    from gdnbench.profile.ncu.functions import check_read, compare_functions, functions_of
    from gdnbench.profile.ncu.report import (
        NcuRequest,
        find_pair,
        find_sources,
        named_kernels,
        open_sources,
        read_instructions,
    )
    from gdnbench.render.output import print_answer
    from gdnbench.report.ncu import differences_answer, functions_answer
    from gdnbench.report.ncu_for_model import model_answer, model_difference_answer
    from gdnbench.report.ncu_lines import lines_answer
    from gdnbench.verbs.progress import watch

    if for_model and csv:
        raise UsageError("--for-model and --csv are two forms", "leave one of them out; --for-model goes with --json")
    if lines and (diff or for_model or csv):
        raise UsageError("--lines is a table of its own, or --json", "leave out --diff, --for-model and --csv")
    names = options.some_terms(kernels, kernel, "gdnbench ncu decode-v4")
    catalog = load_catalog()
    profiled = [*named_kernels(names, stored=stored), *named_kernels([diff], stored=False)]
    wanted = NcuRequest(
        catalog=catalog,
        op=resolve_op(catalog, op, profiled) if profiled else op,
        axes=options.sizes(shape),
        gpu=gpu,
        ncu=path,
        profiles=profiles,
        repeat=repeat or (3 if diff else 1),
        seed=seed,
        limit_s=limit,
    )
    sources = find_pair(wanted, names, diff, stored=stored) if diff else find_sources(wanted, names, stored=stored)
    with watch(quiet=quiet) as observer:
        reports = open_sources(wanted, sources, observer)
    columns = [functions_of(report) for report in reports]
    functions = [function for column in columns for function in column]
    if diff:
        differences = compare_functions(columns[0], columns[1])
        answer_of_differences = model_difference_answer if for_model else differences_answer
        answer = answer_of_differences(differences, catalog.code_state)
    elif lines:
        found = {report.path: read_instructions(report.path, path) for report in reports}
        answer = lines_answer(functions, found, catalog.code_state)
    else:
        answer = (model_answer if for_model else functions_answer)(functions, catalog.code_state)
    print_answer(answer, json=json, csv=csv)
    check_read(functions)
