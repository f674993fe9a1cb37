"""Rows of small pictures, one kernel each, on a common axis: what `samples` and `rounds` are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdnbench.compare.figure import Figure
from gdnbench.model import Role
from gdnbench.report.picture_file import DPI
from gdnbench.report.plots.style import BASELINE, FLOOR, PALETTE, tidy
from gdnbench.stats import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

BLOCKS = "▁▂▃▄▅▆▇█"
_STRIP_INCHES = 0.62


def strips(groups: Sequence[tuple[str, int]], width: float, title: str) -> tuple[Picture, list[list[Axes]]]:
    """A column of strips for each group, side by side.

    Args:
        groups: for each its heading and how many strips it has.
        width: of one group, in inches.
        title: of the picture.

    Returns:
        The picture, and the strips of each group from top to bottom.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    most = max(count for _, count in groups)
    picture = Picture(figsize=(width * len(groups), _STRIP_INCHES * most + 1.1), layout="constrained", dpi=DPI)
    FigureCanvasAgg(picture)
    picture.suptitle(title, fontsize=9, color="#444444", x=0.01, ha="left")
    columns = picture.subfigures(1, len(groups), squeeze=False).flatten()
    found = []
    for column, (heading, count) in zip(columns, groups, strict=True):
        column.suptitle(heading, fontsize=10)
        rows = list(column.subplots(count, 1, sharex=True, squeeze=False).flatten())
        for row in rows:
            tidy(row)
            row.spines["left"].set_visible(False)
        for row in rows[:-1]:
            row.spines["bottom"].set_visible(False)
            row.tick_params(axis="x", length=0)
        found.append(rows)
    return picture, found


def colour_of(figure: Figure) -> str:
    """Black for the baseline, grey for a floor, blue for a kernel: the strips have their names beside them."""
    return {Role.BASELINE: BASELINE, Role.FLOOR: FLOOR}.get(figure.role, PALETTE[0])


def name_strip(panel: Axes, figure: Figure) -> None:
    """Names a strip at its left, with its time."""
    told = f"{figure.label}\n{figure.time_us:.3f} µs"
    panel.set_ylabel(told, fontsize=8, rotation=0, ha="right", va="center", color=colour_of(figure))
    panel.set_yticks([])


def blocks(values: FloatArray, low: float, high: float) -> str:
    """A line of characters whose heights are the values; a space where there is none."""
    span = (high - low) or 1.0
    places = [(value - low) / span for value in values]
    return "".join(
        BLOCKS[min(int(max(place, 0.0) * len(BLOCKS)), len(BLOCKS) - 1)] if place == place else " "  # noqa: PLR0124 - NaN
        for place in places
    )
