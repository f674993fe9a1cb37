"""`gdnbench list`: what have I got?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import AlsoKernels, Csv, Json, Kernels, Results, terms
from gdnbench.places import RESULTS


def list_kernels(
    kernels: Kernels = None,
    kernel: AlsoKernels = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="Presets, params and requirements, too.")] = False,
    results: Results = RESULTS,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List kernels: language, last known time, idea; all of them, or those named.

    A time is of the newest run that timed the kernel, at the op's default shape.
    Of a kernel that is named in full, all is shown. Kernels come from `kernels/`
    and from the folders in `GDNBENCH_KERNELS`; a folder that does not load is
    listed as broken, with the reason.
    """
    from gdnbench.catalog import load_catalog
    from gdnbench.report.catalog_table import choose_listed, print_catalog
    from gdnbench.report.console import print_csv, print_json

    listed = choose_listed(load_catalog(), terms(kernels, kernel), results)
    if json:
        print_json(listed.documents())
    elif csv:
        print_csv(listed.documents())
    else:
        print_catalog(listed, long=long)
