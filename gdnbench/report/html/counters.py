"""What Nsight Compute read of the kernels, where it was asked: `profiles/ncu/<name>/*.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdnbench.errors import RunFormatError
from gdnbench.report.html.content import Cell, Column, Part, Row, Section, Table
from gdnbench.report.html.stored import Stored
from gdnbench.store.table import read_table

_COLUMNS = ("kernel", "shape", "gpu", "section", "metric", "unit", "value")
_LEAD = "Counters of one launch each, read by Nsight Compute in many passes: they explain a time, and are none."

LONGEST = 10  # characters of a number that is shown as it stands

Line = dict[str, str]


def counters_section(profiles: Path, runs: Sequence[Stored]) -> Section | None:
    """A table for each GPU and shape of the report that was profiled; None where nothing was.

    Raises:
        RunFormatError: if a file of counters cannot be read.
    """
    gpus = {run.info.gpu for run in runs}
    kernels = {name for run in runs for row in run.rows for name in (row.case.label, row.case.variant.kernel)}
    lines = [line for path in sorted((profiles / "ncu").glob("*/*.csv")) for line in _read(path)]
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if line["gpu"] in gpus and line["kernel"] in kernels:
            groups.setdefault((line["gpu"], line["shape"]), []).append(line)
    if not groups:
        return None
    parts = tuple(
        _part(gpu, shape, found, f"counters-{number}") for number, ((gpu, shape), found) in enumerate(groups.items())
    )
    return Section(id="counters", title="Counters", lead=_LEAD, parts=parts)


def _read(path: Path) -> list[Line]:
    """The rows of one file; a CSV of another kind is no table of counters, and is left alone."""
    try:
        return read_table(path, _COLUMNS)
    except RunFormatError as error:
        if "lacks the column" in error.message:
            return []
        raise


def _part(gpu: str, shape: str, lines: Sequence[Line], name: str) -> Part:
    kernels = list(dict.fromkeys(line["kernel"] for line in lines))
    metrics = dict.fromkeys((line["section"], line["metric"], line["unit"]) for line in lines)
    values = {(line["section"], line["metric"], line["unit"], line["kernel"]): line["value"] for line in lines}
    rows = tuple(
        Row(
            cells=(
                *(Cell(text=text, sort=text) for text in metric),
                *(_value(values.get((*metric, kernel), "")) for kernel in kernels),
            )
        )
        for metric in metrics
    )
    columns = (
        *(Column(heading=heading, numeric=False) for heading in ("section", "metric", "unit")),
        *(Column(heading=kernel) for kernel in kernels),
    )
    table = Table(id=f"{name}-table", caption=f"{gpu}, {shape}: counters by kernel", columns=columns, rows=rows)
    return Part(id=name, title=f"{gpu}, {shape}", table=table)


def _value(text: str) -> Cell:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return Cell(text=text, sort=text or None)
    # A counter's last digits are those of a division.
    return Cell(text=text if len(text) <= LONGEST else f"{number:.3f}", sort=number)
