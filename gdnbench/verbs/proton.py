"""`gdnbench proton`: where inside a kernel does the time go?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gdnbench.origin import PROFILES
from gdnbench.verbs import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gdnbench.catalog.catalog import Catalog
    from gdnbench.model.case import Case


def proton(
    kernels: options.ProfiledArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    launch: Annotated[
        str,
        typer.Option(
            metavar="ENTRY", help="Of a CUDA kernel of several launches, this one; all with marks by default."
        ),
    ] = "",
    launches: Annotated[
        int | None, typer.Option(min=1, help="Launches to trace, 8 by default, or to stamp cold, 200 by default.")
    ] = None,
    stored: Annotated[bool, typer.Option("--import", help="Show stored .npz or .json files; needs no GPU.")] = False,
    seed: options.InputsSeedOption = 0,
    profiles: options.ProfilesOption = PROFILES,
    limit: options.KernelLimitOption = 120.0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Show where inside a kernel the time goes: by Proton for Triton, by clock stamps for CUDA.

    Of one Triton kernel, each warp of each launch notes the SM's clock at the borders of
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
    from gdnbench.profile.collect import ScopeRequest, collect_scopes
    from gdnbench.profile.recording import load_profile
    from gdnbench.profile.stamps import read_stamps
    from gdnbench.render.output import print_answer
    from gdnbench.report.proton import stamps_answer, trace_answer
    from gdnbench.verbs.progress import watch

    names = options.some_terms(kernels, kernel, "gdnbench proton decode-triton")
    catalog = load_catalog()
    files = [Path(name) for name in names] if stored else []
    cases = [] if stored else _cases(catalog, op, names, options.sizes(shape), gpu)
    request = ScopeRequest(catalog, gpu, profiles, launch, launches, seed, limit)
    by_stamps = all([file.suffix == ".npz" for file in files] or map(request.is_cuda, cases))
    if not by_stamps and (launch or len(files or cases) > 1):
        message = (
            "--launch is for CUDA kernels" if launch else "several are for CUDA kernels and their .npz files alone"
        )
        raise UsageError(message, "name one Triton kernel, as in gdnbench proton decode-triton")
    if cases:
        with watch(quiet=quiet) as observer:
            files = collect_scopes(request, cases, observer)
    if by_stamps:
        answer = stamps_answer({file: read_stamps(file) for file in files}, catalog.code_state, profiles)
    else:
        answer = trace_answer(load_profile(files[0]), catalog.code_state)
    print_answer(answer, json=json)


def _cases(catalog: Catalog, op: str, names: Sequence[str], axes: str, gpu: str) -> list[Case]:
    from gdnbench.catalog.select import resolve_op, select_variants
    from gdnbench.profile.process import choose_case

    op = resolve_op(catalog, op, names)
    variants = select_variants(catalog, op, options.joined(names))
    return [choose_case(catalog, op, variant.label, axes=axes, gpu=gpu) for variant in variants]
