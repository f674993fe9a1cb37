"""`gdnbench merge`: one run of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gdnbench.cli.complete import complete_runs
from gdnbench.cli.options import CsvOption, JsonOption, ResultsOption
from gdnbench.errors import ExitCode
from gdnbench.origin import RESULTS


def merge(
    parts: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="All parts of the run: ids, their starts, or labels.", autocompletion=complete_runs
        ),
    ],
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Make one run of the parts that it was measured in, and print it. Needs no GPU.

    `gdnbench run --suite serving --part 2/4` measures the second of four parts of
    the suite's workloads; each part may be measured on a machine of its own. The
    run that they make takes their place: its times are theirs, and its verdicts are
    corrected for all of its comparisons. Parts of a sweep are merged likewise. The
    exit code is that of the run.
    """
    from gdnbench.store.find import find_run

    folders = [find_run(results, part) for part in parts]
    raise typer.Exit(print_merged(folders, results, params={"json": json, "csv": csv}))


def print_merged(folders: Sequence[Path], results: Path, *, params: Mapping[str, Any], command: str = "") -> ExitCode:
    """Merges parts, prints the run, and gives its exit code.

    Args:
        folders: of the parts.
        results: the folder that holds runs.
        params: how it is printed, as `run` and `sweep` are told: `json`, `csv`, `emit_dispatch`, `plot`.
        command: the command line of the whole run; by default that of a part, without what makes it one.

    Raises:
        UsageError: if they are not all parts of one run.
        MachineError: if nothing that was asked for could be measured.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.compare.merge import merge_parts
    from gdnbench.measuring.exit_code import exit_code_of, exit_code_of_sweep, refuse_nothing_measured
    from gdnbench.report.charts.plot import draw_sweep
    from gdnbench.report.run.table import print_run
    from gdnbench.report.sweep import print_sweep
    from gdnbench.store.info import read_info
    from gdnbench.store.measurements import read_measurements

    folder = merge_parts(load_catalog(), folders, results, command)
    info, rows = read_info(folder), read_measurements(folder)
    if info.swept:
        print_sweep(folder, json=params["json"], csv=params["csv"], dispatch=bool(params.get("emit_dispatch")))
        if plot := params.get("plot"):
            draw_sweep(folder, plot)
        code = exit_code_of_sweep(rows, info.swept, interrupted=False)
    else:
        print_run(folder, json=params["json"], csv=params["csv"])
        code = exit_code_of(rows, interrupted=False, baseline_named=info.baseline_named)
    refuse_nothing_measured(code, rows, baseline_named=info.baseline_named)
    return code
