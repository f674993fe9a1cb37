"""What `gdnbench phases` prints: tables, JSON or CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gdnbench.places import profiles_option
from gdnbench.profilers.phases.reading import Reading, read
from gdnbench.profilers.phases.stamps import About, Stamps
from gdnbench.report.breakdown_table import breakdown_rows
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.other_code import CodeOf
from gdnbench.report.phases_table import print_phases, warnings


def print_stamped(found: Mapping[Path, Stamps], code_of: CodeOf, profiles: Path, *, json: bool, csv: bool) -> None:
    """Prints the stamps of each file, and whether they are of other code than the kernel's is now.

    Raises:
        ProfilerError: if a file's stamps tell nothing.
    """
    readings = {path: (stamps.about, read(stamps)) for path, stamps in found.items()}
    if json:
        print_json([_document(path, about, reading, code_of) for path, (about, reading) in readings.items()])
    elif csv:
        print_csv([row for about, reading in readings.values() for row in _rows(about, reading, code_of)])
    else:
        _print_tables(readings, code_of, profiles)


def _print_tables(readings: Mapping[Path, tuple[About, Reading]], code_of: CodeOf, profiles: Path) -> None:
    console = data_console()
    for path, (about, reading) in readings.items():
        print_phases(console, about, reading, path, code_of(about.label, about.source))
        console.print()
    about, _ = next(iter(readings.values()))
    command = ["gdnbench", "ncu", about.label, "--shape", f"B={about.shape.B}", "--heads", about.shape.heads]
    print_next(console, [*command, *profiles_option(profiles)])


def _document(path: Path, about: About, reading: Reading, code_of: CodeOf) -> dict[str, Any]:
    code = code_of(about.label, about.source)
    return {
        **asdict(about),
        "code": code,
        "shape": about.shape.axes(),
        **_common(reading),
        "phases": breakdown_rows(reading.breakdown),
        "unpassed": reading.unpassed,
        "silent_warps": reading.silent,
        "warnings": warnings(about, reading, code),
        "file": path,
    }


def _rows(about: About, reading: Reading, code_of: CodeOf) -> list[dict[str, Any]]:
    code = code_of(about.label, about.source).value
    subject = {"op": about.op, "label": about.label, **about.shape.axes(), "gpu": about.gpu}
    subject |= {"source": about.source, "code": code}
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
