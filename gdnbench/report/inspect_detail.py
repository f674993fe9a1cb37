"""Few kernels: every number, a column each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.quantities import CODE, OCCUPANCY, RESOURCES, Quantity, mix_order, mix_rows
from gdnbench.report.inspect_cells import STATIC, described, number, refusals

_ONLY_IF_ANY = {"spill_stores", "spill_loads", "predicated"}

Row = tuple[str, list[str]]


def detail(anatomies: Sequence[Anatomy]) -> Group:
    """Resources, occupancy and instructions of up to four builds."""
    subjects = dict.fromkeys(anatomy.subject.name for anatomy in anatomies)
    titles = dict.fromkeys(described(anatomy) for anatomy in anatomies)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for anatomy in anatomies:
        heading = anatomy.arch if len(subjects) == 1 else f"{anatomy.subject.name}\n{anatomy.arch}"
        table.add_column(Text(heading), justify="right", overflow="fold")
    _section(table, "resources", _rows(RESOURCES, anatomies))
    _section(table, "occupancy", [*_rows(OCCUPANCY, anatomies), *_words(anatomies)])
    _section(table, "code", [*_rows(CODE, anatomies), *_mix(anatomies)])
    return Group(
        *(Text(title, style="bold") for title in titles), table, *refusals(anatomies), Text(STATIC, style="dim")
    )


def _section(table: Table, name: str, rows: Iterable[Row]) -> None:
    table.add_row(Text(name, style="bold"))
    for title, cells in rows:
        style = "red" if title.startswith("spill") and any(cell != "0" for cell in cells) else ""
        table.add_row(Text(f"  {title}"), *(Text(cell, style=style) for cell in cells))


def _rows(quantities: Sequence[Quantity], anatomies: Sequence[Anatomy]) -> list[Row]:
    rows = []
    for quantity in quantities:
        values = [quantity.read(anatomy) for anatomy in anatomies]
        if any(values) or quantity.key not in _ONLY_IF_ANY:
            rows.append((quantity.title, [number(value) for value in values]))
    return rows


def _words(anatomies: Sequence[Anatomy]) -> list[Row]:
    devices = [f"{one.device.name} ({one.device.sms} SMs)" if one.device else "-" for one in anatomies]
    return [
        ("  of one", devices),
        ("limited by", [anatomy.occupancy.limited_by for anatomy in anatomies]),
    ]


def _mix(anatomies: Sequence[Anatomy]) -> list[Row]:
    mixes = [mix_rows(anatomy) for anatomy in anatomies]
    names = sorted({name for mix in mixes for name in mix}, key=mix_order)
    return [(name, [str(mix.get(name, 0)) for mix in mixes]) for name in names]
