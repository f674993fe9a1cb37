"""Layout of charts: order of workloads, ticks, spread of names, and a strip for each kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gdnbench.model.measurement import Measurement
from gdnbench.model.workload import Workload
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import time_us
from gdnbench.report.charts.theme import LIGHT, expr

if TYPE_CHECKING:
    import altair as alt

    from gdnbench.stats import FloatArray

_STEPS = (1, 2, 3, 5)  # multiples of each power of 10 that a logarithmic axis labels


def in_order(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """Returns each workload once, by series, within one by size along the x axis."""
    return tuple(sorted(set(workloads), key=_by_series))


def _by_series(workload: Workload) -> tuple[tuple[int, ...], Workload]:
    return tuple(size for name, size in workload.axes.items() if name != workload.spec.x), workload


def workload_slug(workload: Workload) -> str:
    """Returns a workload as part of an id, `b1-qk4-v8`."""
    return workload.slug.lower().replace("_", "-")


def log_ticks(low: float, high: float) -> list[float]:
    """Returns the round numbers that a logarithmic axis labels."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**decade for decade in decades for step in _STEPS if low <= step * 10.0**decade <= high]


def spread(places: Sequence[float], least: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Moves positions apart to at least `least`, each as little as its neighbours allow, within `low` and `high`.

    Blocks of touching positions lie about their mean, as in isotonic regression (pool adjacent violators). `high` holds
    if the positions fit between the two.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    blocks: list[list[float]] = []  # of each block: the sum of its positions less their offsets, and their number
    for rank, index in enumerate(order):
        blocks.append([places[index] - rank * least, 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    level = [total / count for total, count in blocks for _ in range(int(count))]
    ranked = [place + rank * least for rank, place in enumerate(level)]
    last = len(ranked) - 1
    ranked = [min(place, high - (last - rank) * least) for rank, place in enumerate(ranked)]
    ranked = [max(place, low + rank * least) for rank, place in enumerate(ranked)]
    moved = [0.0] * len(places)
    for index, place in zip(order, ranked, strict=True):
        moved[index] = place
    return moved


BLOCKS = "▁▂▃▄▅▆▇█"
STRIP, STRIP_WIDTH = 46, 470  # pixels: height of a strip of a picture, and its width
FOOT, FULL = 0.86, 0.78  # in strips: position of the lowest value, and the height of the highest above it
COLOUR = f"datum.floor ? '{LIGHT.floor}' : ({LIGHT.kernel_colour})"
_NAME_COLOUR = f"datum.floor ? '{LIGHT.muted}' : ({LIGHT.kernel_colour})"
_GAP = 2


def strips(rows: Sequence[Measurement], layers: Sequence[alt.Chart], title: alt.TitleParams) -> alt.LayerChart:
    """Layers strips from top to bottom, with each kernel's name and time at the left.

    `layers` draw strip `n` at a y from `n + FOOT - FULL` to `n + FOOT`.
    """
    import altair as alt

    data = [
        {
            "kernel": row.case.label,
            "floor": not row.role.does_the_work,
            "middle": place + FOOT - FULL / 2,
            "time": f"{time_us(row):.3f} µs",
        }
        for place, row in enumerate(rows)
    ]
    base = alt.Chart(theme.inline(data)).encode(x=alt.value(-8), y=strip_y(len(rows), "middle"))
    name = base.mark_text(align="right", baseline="bottom", fill=expr(_NAME_COLOUR))
    time = base.mark_text(align="right", baseline="top", dy=2, fill=LIGHT.muted)
    return theme.layered(
        *layers,
        name.encode(text=alt.Text(field="kernel", type="nominal")),
        time.encode(text=alt.Text(field="time", type="nominal")),
    ).properties(width=STRIP_WIDTH, height=STRIP * len(rows), title=title)


def strip_y(count: int, field: str) -> alt.Y:
    """Returns the y axis of `count` strips, without lines; the first strip is at the top."""
    import altair as alt

    scale = alt.Scale(domain=[count, 0], nice=False, zero=False)
    return alt.Y(field=field, type="quantitative", scale=scale, axis=None)


def blocks(values: FloatArray, low: float, high: float) -> str:
    """Returns a line of block characters with the heights of the values; a space for NaN."""
    span = (high - low) or 1.0
    places = [(value - low) / span for value in values]
    return "".join(
        BLOCKS[min(int(max(place, 0.0) * len(BLOCKS)), len(BLOCKS) - 1)] if place == place else " "  # noqa: PLR0124 - NaN
        for place in places
    )


@dataclass(frozen=True)
class NamedRows:
    """Rows in the terminal behind their kernels' names, in `indent` columns, or below them on a narrow console."""

    console: Console
    indent: int
    beside: bool

    @classmethod
    def of(cls, console: Console, names: Sequence[str], least: int) -> NamedRows:
        """Places the names beside rows of at least `least` columns if the console is wide enough."""
        indent = max(map(len, names)) + _GAP
        beside = indent + least <= console.width
        return cls(console, indent if beside else _GAP, beside)

    @property
    def room(self) -> int:
        """Columns of a row."""
        return max(1, self.console.width - self.indent)

    def print(self, row: Text, name: str = "") -> None:
        """Prints a row; without a name it belongs to all, as an axis does."""
        if name and not self.beside:
            self.console.print(Text(name), no_wrap=True, crop=True)
        lead = Text(f"{name if self.beside else '':{self.indent}}")
        self.console.print(lead.append(row), no_wrap=True, crop=True)
