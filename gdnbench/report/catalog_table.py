"""The catalog as a table and as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdnbench.catalog import Catalog, Entry, Pick
from gdnbench.model import Shape
from gdnbench.report.console import data_console


def catalog_documents(catalog: Catalog) -> list[dict[str, Any]]:
    """One document a kernel, the broken ones last."""
    healthy = [_document(entry) for entry in catalog.entries.values()]
    empty = dict.fromkeys(healthy[0], "") if healthy else {}
    broken = [
        {**empty, "kernel": each.name, "status": "broken", "reason": each.reason, "folder": str(each.folder)}
        for each in catalog.broken
    ]
    return [*healthy, *broken]


def print_catalog(catalog: Catalog) -> None:
    """A row a kernel; its idea and its params follow in lines that wrap."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("kernel", "language", "what"):
        table.add_column(heading, header_style="bold", no_wrap=heading != "what")
    for entry in catalog.entries.values():
        table.add_row(Text(entry.kernel.name, style="cyan"), entry.kernel.language, _what(entry))
    for broken in catalog.broken:
        table.add_row(Text(broken.name, style="red"), "", Text(f"broken: {broken.reason}", style="red"))
    console = data_console()
    console.print(table)
    console.print("\nnext: gdnbench run --kernel all", markup=False)


def _what(entry: Entry) -> Any:
    from rich.text import Text

    lines = [Text(entry.idea)]
    presets = [f"{name} ({_values(values)})" for name, values in entry.kernel.presets.items()]
    if presets:
        lines.append(Text("presets: " + ", ".join(presets), style="dim"))
    for name, param in entry.kernel.params.items():
        choices = ", ".join(str(choice) for choice in param.choices)
        lines.append(Text(f"{name} = {param.default} of {choices}: {param.doc}", style="dim"))
    if entry.kernel.by_shape:
        tuned = [f"{shape} {_values(values)}" for shape, values in entry.kernel.by_shape.items()]
        lines.append(Text("defaults by shape: " + "; ".join(tuned), style="dim"))
    if entry.dispatch:
        lines += [Text(f"{gpu}: {_picks(rows)}", style="dim") for gpu, rows in entry.dispatch.picks.items()]
    need = entry.missing()
    if need:
        lines.append(Text(f"not available: needs {need.module}; {need.remedy}", style="yellow"))
    return Text("\n").join(lines)


def _picks(rows: Mapping[Shape, Pick]) -> str:
    return "; ".join(f"{shape} {pick.kernel} {pick.params}".rstrip() for shape, pick in sorted(rows.items()))


def _values(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _document(entry: Entry) -> dict[str, Any]:
    kernel, need = entry.kernel, entry.missing()
    return {
        "kernel": kernel.name,
        "op": entry.op.name,
        "language": kernel.language,
        "floor": kernel.floor,
        "presets": {name: dict(values) for name, values in kernel.presets.items()},
        "params": {
            name: {"default": param.default, "choices": list(param.choices), "doc": param.doc}
            for name, param in kernel.params.items()
        },
        "by_shape": [{"shape": shape.axes(), "params": dict(values)} for shape, values in kernel.by_shape.items()],
        "dispatch": [
            {
                "gpu": gpu,
                "shape": shape.axes(),
                "kernel": pick.kernel,
                "params": dict(pick.params),
                "source": pick.source,
            }
            for gpu, rows in (entry.dispatch.picks if entry.dispatch else {}).items()
            for shape, pick in rows.items()
        ],
        "requires": [need.module for need in kernel.requires],
        "status": "missing" if need else "ok",
        "reason": f"needs {need.module}: {need.remedy}" if need else "",
        "idea": entry.idea,
        "folder": str(entry.folder),
    }
