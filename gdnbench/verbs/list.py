"""`gdnbench list`: which kernels are there?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.origin import RESULTS
from gdnbench.verbs.complete import complete_ops
from gdnbench.verbs.options import CsvOption, JsonOption, KernelsArgument, KernelsOption, ResultsOption, terms


def list_kernels(
    kernels: KernelsArgument = None,
    kernel: KernelsOption = None,
    op: Annotated[
        str, typer.Option(help="List the kernels of this op alone.", autocompletion=complete_ops, show_default=False)
    ] = "",
    long: Annotated[bool, typer.Option("--long", "-l", help="Also presets, params and requirements.")] = False,
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """List kernels: language, last known time, idea; all, or those named, or an op's.

    A time is from the newest run that timed the kernel at the op's default workload:
    its kernel time, and its stream time over the copying floor's of the same run.
    Stream times of different runs do not compare, for hosts differ in what a launch costs.
    Kernels that are named in full are shown with everything that is known of
    them. Kernels come from `kernels/` and from the folders in `GDNBENCH_KERNELS`;
    a folder that does not load is listed as broken, with the reason.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.report.catalog import find_kernels, print_kernels

    found = find_kernels(load_catalog(), terms(kernels, kernel), results, op)
    print_kernels(found, long=long, json=json, csv=csv)
