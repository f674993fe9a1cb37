"""`gdnbench proton`: where inside a kernel does the time go?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gdnbench.origin import PROFILES
from gdnbench.process.events import NoteMade
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
    joined,
    sizes,
    some_terms,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gdnbench.catalog.catalog import Catalog
    from gdnbench.model.case import Case


def proton(
    ctx: typer.Context,
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL",
            help="Names or globs of CUDA kernels, or one Triton kernel, params after colons; with --import, files.",
            autocompletion=complete_kernels,
            show_default=False,
        ),
    ] = None,
    kernel: KernelsOption = None,
    op: OpOption = "",
    gpu: GpuOption = "auto",
    shape: ShapesOption = None,
    launch: Annotated[
        str,
        typer.Option(
            metavar="ENTRY", help="Of a CUDA kernel of several launches, this one; all with marks by default."
        ),
    ] = "",
    launches: Annotated[
        int | None, typer.Option(min=1, help="Launches to trace, 8 by default, or to stamp cold, 200 by default.")
    ] = None,
    stored: Annotated[
        bool,
        typer.Option("--import", help="Show stored .npz or .json files, or a .chrome_trace of Proton's; needs no GPU."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    profiles: ProfilesOption = PROFILES,
    limit: KernelLimitOption = 120.0,
    json: JsonOption = False,
    csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show where inside a kernel the time goes: by Proton for Triton, by clock stamps for CUDA.

    Of a Triton kernel, each warp of each launch notes the SM's clock at the borders of
    the kernel's scopes (`with trace.scope("update")`). What that costs shows beside the
    kernel's plain time. The trace stays in profiles/proton, for Perfetto.

    A CUDA kernel is compiled again with its marks as clock reads, checked against the
    oracle, launched cold, and timed beside itself without them: what stamping costs
    is shown. Marks are lines of <gdnbench/phases.cuh> in the kernel; else they are
    nothing. Of a kernel of several launches, each is stamped by itself, in whole
    calls. The stamps stay in profiles/phases.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.model.kernel import CudaKernel

    names = some_terms(kernels, kernel, "gdnbench proton decode-triton")
    catalog = load_catalog()
    files = [Path(name) for name in names] if stored else []
    cases = [] if stored else _cases(catalog, op, names, sizes(shape), gpu)
    are_cuda = [isinstance(catalog.entries[case.variant.kernel].kernel, CudaKernel) for case in cases]
    by_stamps = all([file.suffix == ".npz" for file in files] or are_cuda)
    if not by_stamps and (launch or len(files or cases) > 1):
        told = "--launch is for CUDA kernels" if launch else "several are for CUDA kernels and their .npz files alone"
        raise UsageError(told, "name one Triton kernel, as in gdnbench proton decode-triton")
    if cases and by_stamps:
        files = _stamp(catalog, cases, ctx.params)
    elif cases:
        files = [_trace(catalog, cases[0], ctx.params)]
    if by_stamps:
        from gdnbench.profile.phases.stamps import read_stamps
        from gdnbench.report.phases import print_profiles

        print_profiles({file: read_stamps(file) for file in files}, catalog.code_state, profiles, json=json, csv=csv)
    else:
        from gdnbench.profile.proton.recording import load_profile
        from gdnbench.report.proton import print_profile

        print_profile(load_profile(files[0]), catalog.code_state, json=json, csv=csv)


def _cases(catalog: Catalog, op: str, names: Sequence[str], axes: str, gpu: str) -> list[Case]:
    from gdnbench.catalog.select import resolve_op, select_variants
    from gdnbench.profile.process import choose_case

    op = resolve_op(catalog, op, names)
    variants = select_variants(catalog, op, joined(names))
    return [choose_case(catalog, op, variant.label, axes=axes, gpu=gpu) for variant in variants]


_STORED = "`gdnbench proton --import FILE` shows what is stored"


def _stamp(catalog: Catalog, cases: Sequence[Case], params: Mapping[str, Any]) -> list[Path]:
    """Collects the stamps of CUDA kernels; gives their files."""
    from gdnbench.machine.lock import alone_on
    from gdnbench.profile.phases.collect import collect_stamps
    from gdnbench.profile.process import choose_gpu
    from gdnbench.verbs.progress import watch

    chosen = choose_gpu(params["gpu"], "stamping", _STORED)
    files: list[Path] = []
    with watch(quiet=params["quiet"]) as observer, alone_on(chosen, observer):
        for case in cases:
            observer(NoteMade(f"stamping {case.label} at {case.workload}"))
            files += collect_stamps(
                catalog,
                case,
                chosen,
                params["profiles"],
                launch=params["launch"],
                seed=params["seed"],
                launches=params["launches"] or 200,
                limit_s=params["limit"],
            )
    return files


def _trace(catalog: Catalog, case: Case, params: Mapping[str, Any]) -> Path:
    """Records a trace of a kernel that is not in CUDA; gives its file."""
    from gdnbench.machine.lock import alone_on
    from gdnbench.profile.process import Instrumentation, choose_gpu, make_assignment
    from gdnbench.profile.proton.recording import limit_launches, record_trace
    from gdnbench.verbs.progress import watch

    with watch(quiet=params["quiet"]) as observer:
        count = limit_launches(catalog, case, params["launches"] or 8, lambda text: observer(NoteMade(text)))
        chosen = choose_gpu(params["gpu"], "a trace", _STORED)
        with alone_on(chosen, observer):
            task = make_assignment(catalog, case, Instrumentation.PROTON, seed=params["seed"], launches=count)
            return record_trace(task, chosen, params["profiles"], limit_s=params["limit"])
