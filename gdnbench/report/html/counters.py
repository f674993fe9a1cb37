"""What Nsight Compute read of the kernels of a report, where `gdnbench ncu` has profiled them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gdnbench.finite import finite
from gdnbench.model import Shape
from gdnbench.profilers.ncu.collect import Report
from gdnbench.profilers.ncu.functions import Function, functions_of
from gdnbench.profilers.ncu.quantities import QUANTITIES, STALL_MEANINGS
from gdnbench.profilers.ncu.store import latest, read_profiles
from gdnbench.report.html.content import Cell, Column, Part, Row, Section, Table
from gdnbench.report.html.stored import Stored
from gdnbench.report.ncu_cells import cell, heading, stall_text, titled
from gdnbench.report.ncu_table import NOT_A_TIME, stall_reasons

_LEAD = (
    "Counters of single launches, read by Nsight Compute in many replays: they explain a time, and are none; "
    f"{NOT_A_TIME}"
)


def counters_section(profiles: Path, runs: Sequence[Stored]) -> Section | None:
    """A table for each GPU and shape of the report at which kernels were profiled; None where none was.

    Raises:
        ReportFormatError: if a stored profile cannot be read.
    """
    groups: dict[tuple[str, Shape], dict[Path, None]] = {}
    for gpu, shape, path in _profiled(profiles, runs):
        groups.setdefault((gpu, shape), {})[path] = None
    if not groups:
        return None
    parts = tuple(
        _part(gpu, shape, [function for path in paths for function in _functions(path)], f"counters-{number}")
        for number, ((gpu, shape), paths) in enumerate(groups.items())
    )
    return Section(id="counters", title="Counters", lead=_LEAD, parts=parts)


def _profiled(profiles: Path, runs: Sequence[Stored]) -> Iterator[tuple[str, Shape, Path]]:
    """The newest profile of every case of the report on its GPU, as far as there is one."""
    for run in runs:
        for row in run.rows:
            if path := latest(profiles, row.case.variant.label, row.case.shape, run.info.gpu):
                yield run.info.gpu, row.case.shape, path


def _functions(path: Path) -> tuple[Function, ...]:
    return functions_of(Report(path, read_profiles(path)))


def _part(gpu: str, shape: Shape, functions: Sequence[Function], name: str) -> Part:
    columns = (
        Column(heading="", numeric=False),
        Column(heading="quantity", numeric=False),
        *(Column(heading=" ".join(heading(function, functions))) for function in functions),
    )
    rows = (*_quantities(functions), *_stalls(functions))
    table = Table(id=f"{name}-table", caption=f"{gpu}, {shape}: counters by kernel", columns=columns, rows=rows)
    return Part(id=name, title=f"{gpu}, {shape}", table=table)


def _quantities(functions: Sequence[Function]) -> Iterator[Row]:
    for quantity in QUANTITIES:
        cells = (Cell(text=cell(function, quantity), sort=finite(function.median(quantity))) for function in functions)
        yield Row(cells=(_text(quantity.group), _text(titled(quantity.title, quantity.unit)), *cells))


def _stalls(functions: Sequence[Function]) -> Iterator[Row]:
    found = [function.stalls() for function in functions]
    for reason in stall_reasons(functions):
        cells = (
            Cell(text=stall_text(stalls.get(reason, 0.0), sum(stalls.values())), sort=stalls.get(reason))
            for stalls in found
        )
        meaning = STALL_MEANINGS.get(reason, "")
        told = f"{reason}: {meaning}" if meaning else reason
        yield Row(cells=(_text("cycles/instruction"), _text(told), *cells))


def _text(text: str) -> Cell:
    return Cell(text=text, sort=text)
