"""`gdnbench ncu`: what do the hardware counters say?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.origin import PROFILES
from gdnbench.verbs.complete import complete_kernels
from gdnbench.verbs.options import (
    CsvOption,
    GpuOption,
    JsonOption,
    KernelLimitOption,
    KernelsOption,
    OpOption,
    ProfilesOption,
    QuietOption,
    ShapesOption,
    sizes,
    some_terms,
)


def ncu(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL",
            help="Names or globs, params after colons; with --import, files.",
            autocompletion=complete_kernels,
            show_default=False,
        ),
    ] = None,
    kernel: KernelsOption = None,
    op: OpOption = "",
    gpu: GpuOption = "auto",
    shape: ShapesOption = None,
    diff: Annotated[
        str, typer.Option(metavar="OTHER", help="Show what moved from KERNEL to this one, a kernel or a file.")
    ] = "",
    stored: Annotated[bool, typer.Option("--import", help="Read reports (.ncu-rep, .csv); needs no GPU.")] = False,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Launches to profile of each; 1 by default, 3 with --diff.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    path: Annotated[Path | None, typer.Option("--ncu", help="Nsight Compute; found by itself by default.")] = None,
    profiles: ProfilesOption = PROFILES,
    limit: KernelLimitOption = 300.0,
    for_model: Annotated[
        bool, typer.Option("--for-model", help="Print it for a language model: what bounds it and what it does most.")
    ] = False,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="What --for-model may take; 2000 if not given.")
    ] = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Put the hardware counters of kernels side by side, with Nsight Compute.

    Each kernel is launched in a process of its own, warmed, and profiled alone: every
    section, the clocks as they are, the caches flushed before each replay. The reports
    stay in profiles/ncu, with their metrics as CSV beside them.

    --for-model tells a profile to a language model within a budget of tokens: what
    bounds the kernel, where its cycles go, bytes by level, pipes, stalls, occupancy
    and launch, the largest first; with --diff, what changed.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.select import resolve_op
    from gdnbench.profile.ncu.functions import check_read, compare_functions, functions_of
    from gdnbench.profile.ncu.report import NcuRequest, find_pair, find_sources, named_kernels, open_sources
    from gdnbench.render.output import print_answer
    from gdnbench.report.budget import DEFAULT_BUDGET
    from gdnbench.report.ncu import differences_answer, functions_answer
    from gdnbench.report.ncu_for_model import differences_view, functions_view
    from gdnbench.verbs.progress import watch

    _check_form(for_model, csv, budget)
    most = DEFAULT_BUDGET if budget is None else budget

    names = some_terms(kernels, kernel, "gdnbench ncu decode-v4")
    catalog = load_catalog()
    profiled = [*named_kernels(names, stored=stored), *named_kernels([diff], stored=False)]
    wanted = NcuRequest(
        catalog=catalog,
        op=resolve_op(catalog, op, profiled) if profiled else op,
        axes=sizes(shape),
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
        answer = (
            differences_view(differences, catalog.code_state, most)
            if for_model
            else differences_answer(differences, catalog.code_state)
        )
    elif for_model:
        answer = functions_view(functions, catalog.code_state, most)
    else:
        answer = functions_answer(functions, catalog.code_state)
    print_answer(answer, json=json, csv=csv)
    check_read(functions)


def _check_form(for_model: bool, csv: bool, budget: int | None) -> None:
    """Refuses options that ask for two forms at once, or for a part of a form that is not asked for."""
    from gdnbench.errors import UsageError

    if budget is not None and not for_model:
        raise UsageError("--budget is of --for-model", "add --for-model, or leave it out")
    if for_model and csv:
        raise UsageError("--for-model and --csv are two forms", "leave one of them out; --for-model goes with --json")
