"""Where things lie in a chart: workloads along the axis, ticks, names kept apart, and a strip for each kernel."""

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

_STEPS = (1, 2, 3, 5)  # of each decade, what a logarithmic axis names


def in_order(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """Each workload once: series by series, smaller ones first, along the x axis within one."""
    return tuple(sorted(set(workloads), key=_by_series))


def _by_series(workload: Workload) -> tuple[tuple[int, ...], Workload]:
    return tuple(size for name, size in workload.axes.items() if name != workload.spec.x), workload


def workload_slug(workload: Workload) -> str:
    """A workload as part of an id: `b1-qk4-v8`; what is terse where it is not the usual."""
    return workload.slug.lower().replace("_", "-")


def log_ticks(low: float, high: float) -> list[float]:
    """The round numbers that a logarithmic axis names."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**decade for decade in decades for step in _STEPS if low <= step * 10.0**decade <= high]


def spread(places: Sequence[float], least: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Moves places apart until none is nearer to the next than `least`, each as little as its neighbours allow.

    Blocks of places that touch lie about their mean, as in isotonic regression (pool adjacent violators).

    Args:
        places: where they would lie.
        least: how far apart they must be.
        low: below which none may lie.
        high: above which none may lie, if they fit between the two.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    blocks: list[list[float]] = []  # of each: the sum of its places less their offsets, and how many
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
STRIP, STRIP_WIDTH = 46, 470  # pixels: from one strip of a picture to the next, and how wide they are
FOOT, FULL = 0.86, 0.78  # of a strip: where its lowest value lies, and how far above that its highest
COLOUR = f"datum.floor ? '{LIGHT.floor}' : ({LIGHT.kernel_colour})"
_NAME_COLOUR = f"datum.floor ? '{LIGHT.muted}' : ({LIGHT.kernel_colour})"
_GAP = 2


def strips(rows: Sequence[Measurement], layers: Sequence[alt.Chart], title: alt.TitleParams) -> alt.LayerChart:
    """Strips from top to bottom with the name and the time of each at its left.

    Args:
        rows: a measurement for each strip.
        layers: what is drawn; strip `n` lies at a y from `n + FOOT - FULL` to `n + FOOT`.
        title: what they show.
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
    """The y axis of so many strips, which has no lines: the first is at the top."""
    import altair as alt

    scale = alt.Scale(domain=[count, 0], nice=False, zero=False)
    return alt.Y(field=field, type="quantitative", scale=scale, axis=None)


def blocks(values: FloatArray, low: float, high: float) -> str:
    """A line of characters whose heights are the values; a space where there is none."""
    span = (high - low) or 1.0
    places = [(value - low) / span for value in values]
    return "".join(
        BLOCKS[min(int(max(place, 0.0) * len(BLOCKS)), len(BLOCKS) - 1)] if place == place else " "  # noqa: PLR0124 - NaN
        for place in places
    )


@dataclass(frozen=True)
class NamedRows:
    """Rows in the terminal behind their kernels' names, or below them where the console is too narrow for both.

    Attributes:
        console: where to.
        indent: columns before each row.
        beside: whether the names stand in these.
    """

    console: Console
    indent: int
    beside: bool

    @classmethod
    def of(cls, console: Console, names: Sequence[str], least: int) -> NamedRows:
        """Rows of these names that have at least so many columns each, if the console has them at all."""
        indent = max(map(len, names)) + _GAP
        beside = indent + least <= console.width
        return cls(console, indent if beside else _GAP, beside)

    @property
    def room(self) -> int:
        """Columns that a row has."""
        return max(1, self.console.width - self.indent)

    def print(self, row: Text, name: str = "") -> None:
        """Prints a row; without a name it belongs to all, as an axis does."""
        if name and not self.beside:
            self.console.print(Text(name), no_wrap=True, crop=True)
        lead = Text(f"{name if self.beside else '':{self.indent}}")
        self.console.print(lead.append(row), no_wrap=True, crop=True)
