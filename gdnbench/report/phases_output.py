"""What `gdnbench phases` prints: tables, JSON or CSV."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gdnbench.profilers.phases.reading import Reading, read
from gdnbench.profilers.phases.stamps import About, Stamps
from gdnbench.report.breakdown_table import breakdown_rows
from gdnbench.report.console import data_console, print_csv, print_json
from gdnbench.report.phases_table import print_phases, warnings


def print_stamped(found: Mapping[Path, Stamps], *, json: bool, csv: bool) -> None:
    """Prints the stamps of each file.

    Raises:
        ProfilerError: if a file's stamps tell nothing.
    """
    readings = {path: (stamps.about, read(stamps)) for path, stamps in found.items()}
    if json:
        print_json([_document(path, about, reading) for path, (about, reading) in readings.items()])
    elif csv:
        print_csv([row for about, reading in readings.values() for row in _rows(about, reading)])
    else:
        _print_tables(readings)


def _print_tables(readings: Mapping[Path, tuple[About, Reading]]) -> None:
    console = data_console()
    for path, (about, reading) in readings.items():
        print_phases(console, about, reading, path)
        console.print()
    about, _ = next(iter(readings.values()))
    command = ["gdnbench", "ncu", about.label, "--shape", f"B={about.shape.B}", "--heads", about.shape.heads]
    console.print(f"next: {shlex.join(command)}", markup=False, soft_wrap=True)


def _document(path: Path, about: About, reading: Reading) -> dict[str, Any]:
    return {
        **asdict(about),
        "shape": about.shape.axes(),
        **_common(reading),
        "phases": breakdown_rows(reading.breakdown),
        "unpassed": reading.unpassed,
        "silent_warps": reading.silent,
        "warnings": warnings(about, reading),
        "file": path,
    }


def _rows(about: About, reading: Reading) -> list[dict[str, Any]]:
    subject = {"op": about.op, "label": about.label, **about.shape.axes(), "gpu": about.gpu}
    common = _common(reading)
    return [{**subject, **row, **common} for row in breakdown_rows(reading.breakdown)]


def _common(reading: Reading) -> dict[str, Any]:
    return {
        "launches": reading.breakdown.launches,
        "warps": reading.breakdown.warps,
        **asdict(reading.timeline),
        **asdict(reading.overhead),
        "overhead": reading.overhead.share,
    }
