"""A stored sweep on stdout: as tables, JSON, CSV, or a declaration."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model import Measurement, Point, Sweep
from gdnbench.report.build_table import build_table
from gdnbench.report.console import data_console, print_csv, print_json, print_next, print_text
from gdnbench.report.dispatch import dispatch_text
from gdnbench.report.run_output import next_words, read_rows
from gdnbench.report.sweep_table import print_sweep_tables
from gdnbench.store import RunInfo, read_builds, read_sweep
from gdnbench.store.measurements import measurement_row


def print_sweep(folder: Path, *, json: bool, csv: bool, dispatch: bool) -> None:
    """Reads a sweep's folder and prints it.

    Raises:
        UsageError: if it is a run that swept nothing.
        RunFormatError: if it cannot be read.
    """
    (info, measurements), sweep = read_rows(folder), read_sweep(folder)
    if sweep is None:
        raise UsageError(f"{info.run_id} is no sweep", "gdnbench sweep decode-triton --param BV makes one")
    rows_of = {(row.case.label, row.case.shape) for row in measurements}
    if not all((point.label, point.shape) in rows_of for point in sweep.points):
        raise RunFormatError(f"{folder}: sweep.json and measurements.csv differ", "the sweep is damaged; sweep anew")
    if dispatch:
        print_text(dispatch_text(info, sweep))
    elif json:
        rows = [measurement_row(info, each) for each in measurements]
        print_json({"run": asdict(info), "sweep": sweep.to_dict(), "measurements": rows})
    elif csv:
        print_csv(_rows(info, measurements, sweep))
    else:
        _print_tables(info, measurements, sweep, folder)


def _print_tables(info: RunInfo, measurements: list[Measurement], sweep: Sweep, folder: Path) -> None:
    console = data_console()
    print_sweep_tables(console, info, sweep, measurements, folder)
    builds = read_builds(folder)
    if builds and not info.on_gpu:
        console.print(build_table(builds))
    print_next(console, next_words(info, folder, "--emit-dispatch" if sweep.plateaus else "--csv"))


def _rows(info: RunInfo, measurements: list[Measurement], sweep: Sweep) -> list[dict[str, Any]]:
    """A measurement a row, with its place in the race."""
    points = {(point.label, point.shape): point for point in sweep.points}
    return [
        {**measurement_row(info, row), **_place(points.get((row.case.label, row.case.shape)))}
        for row in measurements
        if row.case.is_point_of(sweep.axes)
    ]


def _place(point: Point | None) -> dict[str, Any]:
    names = ("place", "slower_by", "slower_lo", "slower_hi")
    return {name: getattr(point, name) if point else None for name in names}
