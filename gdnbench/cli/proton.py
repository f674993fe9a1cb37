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
    KernelsOption,
    LimitOption,
    OpOption,
    ProfilesOption,
    QuietOption,
    ShapesOption,
    one_term,
    sizes,
)
from gdnbench.places import PROFILES


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
    from gdnbench.profilers.process import Instrumentation
    from gdnbench.profilers.proton.collect import check_is_no_cuda, limit_launches, record_trace
    from gdnbench.profilers.selection import choose_case, choose_gpu, make_assignment

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
