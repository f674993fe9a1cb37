"""`gdnbench import`: files of the FlashInfer contest as ops, kernels and published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import JsonOption, OpOption, QuietOption, ResultsOption
from gdnbench.places import RESULTS


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Definitions, Solutions, workloads, traces, or the folder of a data set."),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder of kernels to write to, as `kernels/` is.")],
    op: OpOption = "",
    name: Annotated[str, typer.Option(help="The kernel's name, for a single Solution.")] = "",
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make ops and kernels of files of flashinfer-bench; none of their code is run.

    A Definition becomes an op, its lines of workloads a suite of it, a Solution a
    kernel that verifies and runs beside others. With `--op` Solutions become kernels
    of an op that is here. Latencies in traces become published figures, which
    `compare` and `report` set beside runs and never mix with them.
    """
    from gdnbench.exchange.importing import ImportRequest
    from gdnbench.exchange.importing import import_files as read
    from gdnbench.report.exchange import print_imported

    imported = read(ImportRequest(files=files, to=to, op=op, name=name, results=results))
    print_imported(imported, json=json, quiet=quiet)
