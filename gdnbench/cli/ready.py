"""`gdnbench ready`: can it be sent to a contest, or into a library?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import (
    GpuOption,
    JsonOption,
    KernelArgument,
    KernelsOption,
    OpOption,
    QuietOption,
    ResultsOption,
    StepLimitOption,
    joined,
    one_term,
)
from gdnbench.places import RESULTS


def ready(
    kernels: KernelArgument = None,
    kernel: KernelsOption = None,
    op: OpOption = "",
    gpu: GpuOption = "auto",
    suite: Annotated[
        str, typer.Option(metavar="NAME", help="The suite of which a run is needed; contest, else default.")
    ] = "",
    arch: Annotated[
        list[str] | None,
        typer.Option(metavar="sm_N,…", help="What it must build for: sm_90 and sm_100, or its own target."),
    ] = None,
    fail_on: Annotated[
        list[str] | None, typer.Option(metavar="RULE,…", help="What no build may do, as inspect has it; spills.")
    ] = None,
    step_limit: StepLimitOption = 30.0,
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check whether a kernel is ready to be sent to a contest or into a library.

    Five checks: its source, as `lint` reads it; its builds, as `inspect --fail-on
    spills`; its numbers, as `verify`, without a GPU in the interpreters; its
    accesses, as `verify --sanitize`; and a stored run on a GPU of its code as it is
    now, at every workload of a suite. Measures nothing itself. Exits with 0 if all
    pass; else with the code of the gravest failure, or where nothing failed with 5
    for what cannot be checked here, 8 for what is missing.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.cli.progress import watch
    from gdnbench.inspection.quantities import parse_rules
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.ready.candidate import Terms
    from gdnbench.ready.run import check_kernel
    from gdnbench.report.ready import print_readiness

    name = one_term(kernels, kernel, "gdnbench ready decode-v9")
    rules = parse_rules(joined(fail_on) or "spills")
    chosen = select_gpu(gpu, list_gpus())
    with watch(quiet=quiet) as observer:
        terms = Terms(
            archs=joined(arch),
            rules=rules,
            suite=suite,
            gpu=chosen,
            gpu_asked=gpu,
            step_limit_s=step_limit,
            results=results,
            observer=observer,
        )
        found = check_kernel(load_catalog(), op, name, terms)
    print_readiness(found, json=json)
    raise typer.Exit(found.exit_code)
