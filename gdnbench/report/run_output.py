"""A stored run on stdout: as tables, as JSON, or as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from gdnbench.compare.suite import SuiteResult, judge_suite
from gdnbench.errors import ExitCode, RunFormatError, UsageError
from gdnbench.model import Measurement, Role, Shape, Suite
from gdnbench.places import out_option
from gdnbench.report.build_table import build_table
from gdnbench.report.clocks import Clocks, Gap, gaps_of
from gdnbench.report.clocks_table import LEGEND, print_clocks
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.repeat import repeat_words
from gdnbench.report.run_table import print_tables
from gdnbench.report.suite_table import print_suite, suite_document, suite_rows
from gdnbench.store import RunInfo, read_builds, read_clocks, read_info, read_measurements, read_rounds, suite_of
from gdnbench.store.folder import PARTIAL
from gdnbench.store.measurements import measurement_row


def print_run(folder: Path, *, json: bool, csv: bool, suite: Suite | None = None, over: Sequence[str] = ()) -> None:
    """Reads a run's folder and prints it.

    Args:
        folder: the run's.
        json: as a JSON document.
        csv: as rows of CSV; of the suite, where one is asked for.
        suite: the suite to sum the run up by; by default the one that it measured, if any.
        over: with a suite, the kernels to compare with; by default the baseline.

    Raises:
        RunFormatError: if the folder holds no run that this gdnbench can read.
        UsageError: if the run lacks workloads of the suite.
        UnknownNameError: for a kernel to compare with that the run does not have.
    """
    info, measurements = read_rows(folder)
    builds, clocks = read_builds(folder), read_clocks(folder)
    result = _judge_suite(folder, info, measurements, suite, over)
    if json:
        rows = _flat_rows(info, measurements, clocks)
        document = {"run": asdict(info), "measurements": rows, "builds": [asdict(build) for build in builds]}
        print_json(document | ({"suite": suite_document(result)} if result else {}))
    elif csv:
        print_csv(suite_rows(result) if result and suite else _flat_rows(info, measurements, clocks))
    else:
        console = data_console()
        below = partial(_print_clocks, console, measurements, clocks)
        print_tables(console, info, measurements, folder, below, LEGEND if clocks else ())
        if builds and not info.on_gpu:
            console.print(build_table(builds))
        if result:
            print_suite(console, result, info.op)
        print_next(console, _after_run(info, measurements, folder))


def _judge_suite(
    folder: Path, info: RunInfo, measurements: Sequence[Measurement], asked: Suite | None, over: Sequence[str]
) -> SuiteResult | None:
    """The suite that was asked for; else the run's own, if there is something to sum up."""
    suite = asked or suite_of(info)
    if suite is None and over:
        raise UsageError("--over is for a suite", "as in --suite contest --over decode-fla")
    if suite is None or not (asked or any(row.timing and row.role is Role.BASELINE for row in measurements)):
        return None
    settings = info.settings
    return judge_suite(
        measurements,
        read_rounds(folder),
        suite,
        over=over,
        margin=settings["margin"],
        confidence=settings["confidence"],
    )


def _after_run(info: RunInfo, measurements: Sequence[Measurement], folder: Path) -> list[str]:
    """Wrong numbers come first: the command that shows them again."""
    wrong = [row.case for row in measurements if row.status.exit_code is ExitCode.WRONG_NUMBERS]
    seed = info.settings.get("seed")
    if wrong and seed is not None:
        return repeat_words(wrong[0], seed)
    return next_words(info, folder, "--csv")


def next_words(info: RunInfo, folder: Path, option: str) -> list[str]:
    """The command to go on with: what finishes a run that was stopped, else another view of it by an option."""
    hidden = PARTIAL.fullmatch(folder.name)
    named = [hidden["run_id"] if hidden else folder.name, *out_option(folder.parent)]
    return ["gdnbench", "show", *named, option] if info.complete else ["gdnbench", "run", "--resume", *named]


def _flat_rows(info: RunInfo, measurements: Sequence[Measurement], clocks: Clocks) -> list[dict[str, Any]]:
    """A row per case and clock; where there are several clocks, the gap between them beside the run's own."""
    gaps = gaps_of(measurements, clocks)
    own = [
        {**measurement_row(info, row), **(gaps.get(row.case.id, Gap()).cells() if clocks else {})}
        for row in measurements
    ]
    return [*own, *(measurement_row(info, row) for rows in clocks.values() for row in rows)]


def _print_clocks(console: Console, measurements: Sequence[Measurement], clocks: Clocks, shape: Shape) -> None:
    here = [row for row in measurements if row.case.shape == shape]
    print_clocks(
        console, here, {clock: [row for row in rows if row.case.shape == shape] for clock, rows in clocks.items()}
    )


def read_rows(folder: Path) -> tuple[RunInfo, list[Measurement]]:
    """A run's description, and a measurement for each of its cases.

    Raises:
        RunFormatError: if they cannot be read, or some are missing.
    """
    info, measurements = read_info(folder), read_measurements(folder)
    if len(measurements) != len(info.cases):
        lost = f"{folder} has {len(measurements)} measurements of {len(info.cases)} cases"
        raise RunFormatError(f"{lost}: measurements.csv is cut off", "the run is damaged; measure anew")
    return info, measurements
