"""How every picture looks: colours that the colour-blind can tell apart, few lines, names beside what they name.

The palette is that of Okabe and Ito, "Color Universal Design" (2008); its yellow is left out, which is faint on white.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gdnbench.compare.figure import Figure
from gdnbench.model import Role

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # as many as a chart has lines by default
BASELINE, FLOOR, FAINT = "#000000", "#7F7F7F", "#B0B0B0"
MOST_ACROSS = 3
_STEPS = (1, 2, 3, 5)  # of each decade, what a logarithmic axis names
_GAP = 1.35  # of a label's height, between the middles of neighbouring labels


def panels(count: int, width: float, height: float, title: str) -> tuple[Picture, list[Axes]]:
    """A picture of so many panels, each so many inches wide and high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    across = min(count, MOST_ACROSS)
    down = -(-count // across)
    picture = Picture(figsize=(width * across, height * down + 0.4), layout="constrained")
    FigureCanvasAgg(picture)
    every = list(picture.subplots(down, across, squeeze=False).flatten())
    for panel in every[count:]:
        panel.set_axis_off()
    picture.suptitle(title, fontsize=9, color="#444444", x=0.01, ha="left")
    return picture, every[:count]


@contextmanager
def house_style() -> Iterator[None]:
    """What holds while a picture is made and written: text in an SVG stays text, and a `$` in a name stays a `$`."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "text.parse_math": False}):
        yield


def colours(figures: Sequence[Figure]) -> dict[str, str]:
    """A colour for each label: black for the baseline, grey for floors, the palette in turn for the others."""
    others = [label for label, role in _roles(figures).items() if role is Role.KERNEL]
    named = {label: PALETTE[place % len(PALETTE)] for place, label in enumerate(others)}
    fixed = {Role.BASELINE: BASELINE, Role.FLOOR: FLOOR}
    return {label: named.get(label) or fixed.get(role, FLOOR) for label, role in _roles(figures).items()}


def markers(figures: Sequence[Figure]) -> dict[str, str]:
    """A marker for each label, so that no line is known by its colour alone."""
    return {label: MARKERS[place % len(MARKERS)] for place, label in enumerate(_roles(figures))}


def tidy(panel: Axes, *, grid: str = "") -> None:
    """Takes away what carries no data, and adds faint lines along one axis where they help to read values."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)
    if grid:
        panel.grid(axis="x" if grid == "x" else "y" if grid == "y" else "both", color="#E4E4E4", linewidth=0.6)
        panel.set_axisbelow(True)


def log_ticks(low: float, high: float) -> list[float]:
    """The round numbers that a logarithmic axis names."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**decade for decade in decades for step in _STEPS if low <= step * 10.0**decade <= high]


def spread(places: Sequence[float], least: float) -> list[float]:
    """Moves places apart until none is nearer to the next than `least`, each as little as its neighbours allow.

    Blocks of places that touch lie about their mean, as in isotonic regression (pool adjacent violators).
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    blocks: list[list[float]] = []  # of each: the sum of its places less their offsets, and how many
    for rank, index in enumerate(order):
        blocks.append([places[index] - rank * least, 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    level = [total / count for total, count in blocks for _ in range(int(count))]
    moved = [0.0] * len(places)
    for rank, index in enumerate(order):
        moved[index] = level[rank] + rank * least
    return moved


def label_ends(panel: Axes, ends: Sequence[tuple[str, float, float, str]], size: float = 8.0) -> None:
    """Names lines at their right ends, moved apart where they would overlap.

    Args:
        panel: where; its limits and scales must be final.
        ends: for each line its name, the x and y of its end, and its colour.
        size: of the text, in points.
    """
    height = panel.get_position().height * panel.figure.get_figheight() * 72.0  # type: ignore[union-attr]
    down = [float(panel.transAxes.inverted().transform(panel.transData.transform((x, y)))[1]) for _, x, y, _ in ends]
    for (name, x, y, colour), place in zip(ends, spread(down, _GAP * size / height), strict=True):
        panel.annotate(
            name,
            xy=(x, y),
            xytext=(1.03, place),
            textcoords="axes fraction",
            fontsize=size,
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.5,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0.0, 0.5),
            },
        )


def _roles(figures: Sequence[Figure]) -> dict[str, Role]:
    return {each.label: each.role for each in figures}
