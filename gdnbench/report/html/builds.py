"""What the compiler made of kernels that the machine at hand cannot run."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.report.html.content import Cell, Column, Row, Table
from gdnbench.report.html.numbers import count_cell
from gdnbench.store import BuildRow

_COLUMNS = (
    Column(heading="kernel", numeric=False),
    Column(heading="heads", numeric=False),
    Column(heading="target", numeric=False),
    Column(heading="regs", title="registers a thread"),
    Column(heading="spill B", title="bytes a thread that do not fit registers"),
    Column(heading="smem B", title="static shared memory a block, bytes"),
    Column(heading="load bits", title="width of the widest global load"),
    Column(heading="interpreter", numeric=False, title="verdict of Triton's interpreter on the arithmetic"),
    Column(heading="status", numeric=False, folds=True),
)


def builds_table(builds: Sequence[BuildRow], name: str) -> Table | None:
    """A row a variant and target; None where nothing was compiled."""
    if not builds:
        return None
    return Table(
        id=name, caption="GPU kernels: compiled here, not timed", columns=_COLUMNS, rows=tuple(map(_row, builds))
    )


def _row(build: BuildRow) -> Row:
    texts = (build.label, build.heads, build.arch)
    counts = (build.registers, build.spill_bytes, build.shared_bytes, build.load_bits)
    status = build.status if build.status == "ok" else f"{build.status}: {build.reason}"
    last = (build.interpreter, status)
    return Row(cells=(*map(_text, texts), *map(count_cell, counts), *map(_text, last)))


def _text(text: str) -> Cell:
    return Cell(text=text, sort=text or None)
