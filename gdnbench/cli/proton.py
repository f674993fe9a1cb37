"""`gdnbench proton`: where inside a Triton kernel does the time go?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.complete import complete_kernels
from gdnbench.cli.options import (
    AlsoKernels,
    Batches,
    Csv,
    Gpu,
    Heads,
    Json,
    Op,
    Profiles,
    Quiet,
    joined,
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
    kernel: AlsoKernels = None,
    op: Op = "decode",
    gpu: Gpu = "auto",
    shape: Batches = None,
    heads: Heads = None,
    launches: Annotated[int, typer.Option(min=1, help="Launches to trace.")] = 8,
    stored: Annotated[
        bool, typer.Option("--import", help="Show a stored .json, or a .chrome_trace of Proton's; needs no GPU.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    profiles: Profiles = PROFILES,
    limit: Annotated[float, typer.Option(help="Seconds that it may take.")] = 120.0,
    json: Json = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Show where inside a Triton kernel the time goes, by Proton's instrumentation.

    Each warp of each launch notes the SM's clock at the borders of the kernel's
    scopes (`with trace.scope("update")`). What that costs shows beside the kernel's
    plain time. The trace stays in profiles/proton, for Perfetto.
    """
    from gdnbench.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.profilers.proton.opened import open_stored
    from gdnbench.report.proton_output import print_opened

    name = one_term(kernels, kernel, "gdnbench proton decode-triton")
    catalog = load_catalog()
    if stored:
        print_opened(open_stored(Path(name)), catalog.code_state, json=json, csv=csv)
        return
    from gdnbench.bench.alone import alone_on
    from gdnbench.profilers.assignment import Errand
    from gdnbench.profilers.choice import choose_case, choose_gpu, prepare
    from gdnbench.profilers.proton.record import limit_launches, record, refuse_cuda

    case = choose_case(catalog, op, name, axes=sizes(shape), heads=joined(heads), gpu=gpu)
    refuse_cuda(catalog, case)
    with watch(quiet=quiet) as observer:
        count = limit_launches(catalog, case, launches, observer.note)
        chosen = choose_gpu(gpu, "a trace", "gdnbench proton --import FILE shows a stored one")
        with alone_on(chosen, observer):
            path = record(
                prepare(catalog, case, Errand.PROTON, seed=seed, launches=count), chosen, profiles, limit_s=limit
            )
    print_opened(open_stored(path), catalog.code_state, json=json, csv=csv)
