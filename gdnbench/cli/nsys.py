"""`gdnbench nsys`: a timeline of launches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import (
    AlsoKernels,
    Batches,
    Gpu,
    Heads,
    Json,
    Kernel,
    Op,
    Profiles,
    Quiet,
    joined,
    one_term,
    sizes,
)
from gdnbench.places import PROFILES


def nsys(
    kernels: Kernel = None,
    kernel: AlsoKernels = None,
    op: Op = "decode",
    gpu: Gpu = "auto",
    shape: Batches = None,
    heads: Heads = None,
    launches: Annotated[int, typer.Option(min=1, help="How often to launch.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    path: Annotated[Path | None, typer.Option("--nsys", help="Nsight Systems; found by itself by default.")] = None,
    profiles: Profiles = PROFILES,
    limit: Annotated[float, typer.Option(help="Seconds that it may take.")] = 120.0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Record a timeline of launches with Nsight Systems, where that is installed.

    NVTX ranges name op, kernel and shape. The report opens in Nsight Systems; times
    in it include what tracing costs, so use `gdnbench run` to compare kernels.
    """
    from gdnbench.bench.alone import alone_on
    from gdnbench.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.profilers.assignment import Errand
    from gdnbench.profilers.choice import choose_case, choose_gpu, prepare
    from gdnbench.profilers.nsys import find_nsys, record_timeline
    from gdnbench.report.console import print_json

    catalog = load_catalog()
    name = one_term(kernels, kernel, "gdnbench nsys decode-v4")
    case = choose_case(catalog, op, name, axes=sizes(shape), heads=joined(heads), gpu=gpu)
    chosen = choose_gpu(gpu, "a timeline")
    assignment = prepare(catalog, case, Errand.LAUNCH, seed=seed, launches=launches)
    with watch(quiet=quiet) as observer, alone_on(chosen, observer):
        report = record_timeline(assignment, chosen, path or find_nsys(), profiles, limit_s=limit)
    if json:
        print_json({"kernel": case.label, "shape": case.shape.axes(), "launches": launches, "report": report})
        return
    print(f"{launches} launches of {case.label} at {case.shape}: {report}")
    if not quiet:
        print(f"next: nsys-ui {report}")
