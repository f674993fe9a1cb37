"""`gdnbench proton`: where inside a Triton kernel does the time go?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.complete import complete_kernels
from gdnbench.cli.options import (
    CsvOption,
    GpuOption,
    JsonOption,
    KernelLimitOption,
    KernelsArgument,
    KernelsOption,
    LimitOption,
    OpOption,
    ProfilesOption,
    QuietOption,
    ShapesOption,
    joined,
    one_term,
    sizes,
    terms,
)
from gdnbench.origin import PROFILES


def proton(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL",
            help="A name, with params after colons; with --import, a file.",
            autocompletion=complete_kernels,
            show_default=False,
        ),
    ] = None,
    kernel: KernelsOption = None,
    op: OpOption = "",
    gpu: GpuOption = "auto",
    shape: ShapesOption = None,
    launches: Annotated[int, typer.Option(min=1, help="Launches to trace.")] = 8,
    stored: Annotated[
        bool, typer.Option("--import", help="Show a stored .json, or a .chrome_trace of Proton's; needs no GPU.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    profiles: ProfilesOption = PROFILES,
    limit: LimitOption = 120.0,
    json: JsonOption = False,
    csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show where inside a Triton kernel the time goes, by Proton's instrumentation.

    Each warp of each launch notes the SM's clock at the borders of the kernel's
    scopes (`with trace.scope("update")`). What that costs shows beside the kernel's
    plain time. The trace stays in profiles/proton, for Perfetto.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.profilers.proton.recording import load_profile
    from gdnbench.report.proton import print_profile

    name = one_term(kernels, kernel, "gdnbench proton decode-triton")
    catalog = load_catalog()
    if stored:
        print_profile(load_profile(Path(name)), catalog.code_state, json=json, csv=csv)
        return
    from gdnbench.catalog.resolve import resolve_op
    from gdnbench.measuring.observer import alone_on
    from gdnbench.profilers.process import Instrumentation, choose_case, choose_gpu, make_assignment
    from gdnbench.profilers.proton.recording import check_is_no_cuda, limit_launches, record_trace

    case = choose_case(catalog, resolve_op(catalog, op, [name]), name, axes=sizes(shape), gpu=gpu)
    check_is_no_cuda(catalog, case)
    with watch(quiet=quiet) as observer:
        count = limit_launches(catalog, case, launches, observer.note)
        chosen = choose_gpu(gpu, "a trace", "gdnbench proton --import FILE shows a stored one")
        with alone_on(chosen, observer):
            path = record_trace(
                make_assignment(catalog, case, Instrumentation.PROTON, seed=seed, launches=count),
                chosen,
                profiles,
                limit_s=limit,
            )
    print_profile(load_profile(path), catalog.code_state, json=json, csv=csv)


def phases(
    kernels: KernelsArgument = None,
    kernel: KernelsOption = None,
    op: OpOption = "",
    gpu: GpuOption = "auto",
    shape: ShapesOption = None,
    launch: Annotated[
        str, typer.Option(metavar="ENTRY", help="Of a kernel of several launches, this one; all with marks by default.")
    ] = "",
    launches: Annotated[int, typer.Option(min=1, help="Cold launches to stamp.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    stored: Annotated[
        list[Path] | None,
        typer.Option("--import", metavar="FILE", help="Show stored stamps; needs no GPU; repeatable."),
    ] = None,
    profiles: ProfilesOption = PROFILES,
    limit: KernelLimitOption = 120.0,
    json: JsonOption = False,
    csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show how long each warp of a CUDA kernel spends in each of its phases.

    The kernel is compiled again with its marks as clock reads, checked against the
    oracle, launched cold, and timed beside itself without them: what stamping costs
    is shown. Marks are lines of <gdnbench/phases.cuh> in the kernel; else they are
    nothing. Of a kernel of several launches, each is stamped by itself, in whole
    calls. For Triton kernels, see `gdnbench proton`.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.errors import UsageError
    from gdnbench.profilers.phases.stamps import read_stamps
    from gdnbench.report.phases import print_profiles

    names = terms(kernels, kernel)
    if bool(names) == bool(stored):
        raise UsageError("name kernels, or files to --import", "as in `gdnbench phases decode-v4`")
    catalog = load_catalog()
    found = {path: read_stamps(path) for path in stored or []}
    if names:
        from gdnbench.catalog.resolve import resolve_op
        from gdnbench.catalog.select import select_variants
        from gdnbench.measuring.observer import alone_on
        from gdnbench.profilers.phases.collect import check_is_cuda, collect_stamps
        from gdnbench.profilers.process import choose_case, choose_gpu

        op = resolve_op(catalog, op, names)
        cases = [
            choose_case(catalog, op, variant.label, axes=sizes(shape), gpu=gpu)
            for variant in select_variants(catalog, op, joined(names))
        ]
        for case in cases:
            check_is_cuda(catalog.entries[case.variant.kernel], case.label)
        chosen = choose_gpu(gpu, "stamping", "`gdnbench phases --import FILE.npz` shows stored stamps")
        with watch(quiet=quiet) as observer, alone_on(chosen, observer):
            for case in cases:
                observer.note(f"stamping {case.label} at {case.workload}")
                found |= collect_stamps(
                    catalog, case, chosen, profiles, launch=launch, seed=seed, launches=launches, limit_s=limit
                )
    print_profiles(found, catalog.code_state, profiles, json=json, csv=csv)
