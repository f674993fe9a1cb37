"""A stored run on stdout: as tables, as JSON, or as CSV."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from gdnbench.errors import RunFormatError
from gdnbench.model import Measurement
from gdnbench.report.build_table import build_table
from gdnbench.report.console import data_console, print_csv, print_json
from gdnbench.report.run_table import print_tables
from gdnbench.store import RunInfo, read_builds, read_info, read_measurements
from gdnbench.store.measurements import measurement_row


def print_run(folder: Path, *, json: bool, csv: bool) -> None:
    """Reads a run's folder and prints it.

    Raises:
        RunFormatError: if the folder holds no run that this gdnbench can read.
    """
    info, measurements = read_rows(folder)
    builds = read_builds(folder)
    rows = [measurement_row(info, each) for each in measurements]
    if json:
        print_json({"run": asdict(info), "measurements": rows, "builds": [asdict(build) for build in builds]})
    elif csv:
        print_csv(rows)
    else:
        console = data_console()
        print_tables(console, info, measurements, folder)
        if info.gpu == "cpu" and builds:
            console.print(build_table(builds))
        console.print(f"next: gdnbench show {info.run_id} --csv", markup=False, soft_wrap=True)


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
