"""`gdnbench doctor`: is this machine fit to measure?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.errors import ExitCode


def doctor(
    gpu: Annotated[str, typer.Option(help="auto, cpu, an index, a model (h200, b200) or a GPU-… UUID.")] = "auto",
    results: Annotated[Path, typer.Option("--out", help="The folder that runs are to be written to.")] = Path(
        "results"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list of findings.")] = False,
) -> None:
    """Check whether this machine is fit to measure, and say how to fix what is not.

    Checks Python, files that shadow modules, torch, Triton, NVRTC, NVBench, the driver, every GPU
    (clocks, temperature, other processes), the profilers and their
    permissions, and room for results. Changes nothing. Exits with 5 if
    nothing can be measured.
    """
    from gdnbench.cli.progress import waiting
    from gdnbench.doctor.run import run_checks
    from gdnbench.report.doctor import print_checks

    with waiting("Loading torch, triton and cuda-bench…"):
        checks = run_checks(results, gpu)
    print_checks(checks, gpu, json=json)
    if any(check.is_fatal for check in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)
