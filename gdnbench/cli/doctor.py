"""`gdnbench doctor`: is this machine fit to measure?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gdnbench.errors import ExitCode

if TYPE_CHECKING:
    from gdnbench.doctor import Check


def doctor(
    gpu: Annotated[str, typer.Option(help="auto, cpu, an index, a model (h200, b200) or a GPU-… UUID.")] = "auto",
    results: Annotated[Path, typer.Option("--out", help="The folder that runs are to be written to.")] = Path(
        "results"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list of findings.")] = False,
) -> None:
    """Say whether this machine is fit to measure, and what to do where it is not.

    Looks at Python, torch, Triton, NVRTC, NVBench, the driver, every GPU
    (clocks, heat, who else is on it), the profilers and their permissions,
    and room for results. Changes nothing. Exits with 5 if nothing can be
    measured.
    """
    from gdnbench.doctor import diagnose
    from gdnbench.report.console import data_console, message_console, print_json
    from gdnbench.report.doctor_table import doctor_table

    with message_console().status("Loading torch, triton and cuda-bench…"):
        checks = diagnose(results, gpu)
    if json:
        from dataclasses import asdict

        print_json([asdict(check) for check in checks])
    else:
        console = data_console()
        console.print(doctor_table(checks))
        console.print(_closing(checks, gpu), markup=False)
    if any(check.is_fatal for check in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)


def _closing(checks: Sequence[Check], gpu: str) -> str:
    counts = {level: sum(check.level == level for check in checks) for level in ("ok", "warn", "fail")}
    summary = "\n" + ", ".join(f"{count} {level}" for level, count in counts.items())
    option = "" if gpu == "auto" else f" --gpu {quote(gpu)}"
    if any(check.is_fatal for check in checks):
        return f"{summary}: nothing can be measured until what fails is mended\nnext: gdnbench doctor{option}"
    return f"{summary}\nnext: gdnbench run --kernel all{option}"
