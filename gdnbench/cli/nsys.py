"""`gdnbench nsys`: a timeline of launches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import (
    GpuOption,
    JsonOption,
    KernelArgument,
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


def nsys(
    kernels: KernelArgument = None,
    kernel: KernelsOption = None,
    op: OpOption = "",
    gpu: GpuOption = "auto",
    shape: ShapesOption = None,
    launches: Annotated[int, typer.Option(min=1, help="How often to launch.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    path: Annotated[Path | None, typer.Option("--nsys", help="Nsight Systems; found by itself by default.")] = None,
    profiles: ProfilesOption = PROFILES,
    limit: LimitOption = 120.0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Record a timeline of launches with Nsight Systems, where that is installed.

    NVTX ranges name op, kernel and workload. The report opens in Nsight Systems; times
    in it include what tracing costs, so use `gdnbench run` to compare kernels.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.resolve import resolve_op
    from gdnbench.cli.progress import watch
    from gdnbench.measuring.observer import alone_on
    from gdnbench.profilers.nsys import find_nsys, record_timeline
    from gdnbench.profilers.process import Instrumentation
    from gdnbench.profilers.selection import choose_case, choose_gpu, make_assignment
    from gdnbench.report.console import print_json

    catalog = load_catalog()
    name = one_term(kernels, kernel, "gdnbench nsys decode-v4")
    case = choose_case(catalog, resolve_op(catalog, op, [name]), name, axes=sizes(shape), gpu=gpu)
    chosen = choose_gpu(gpu, "a timeline")
    assignment = make_assignment(catalog, case, Instrumentation.LAUNCH, seed=seed, launches=launches)
    with watch(quiet=quiet) as observer, alone_on(chosen, observer):
        report = record_timeline(assignment, chosen, path or find_nsys(), profiles, limit_s=limit)
    if json:
        print_json({"kernel": case.label, "shape": case.workload.cells, "launches": launches, "report": report})
        return
    print(f"{launches} launches of {case.label} at {case.workload}: {report}")
    if not quiet:
        print(f"next: nsys-ui {report}")
