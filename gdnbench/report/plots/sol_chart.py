"""The share of the speed of light: the copying floor's time over each kernel's, a bar for each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gdnbench.compare.figure import Figure
from gdnbench.errors import UsageError
from gdnbench.model import Role, Shape
from gdnbench.report.plots.named_rows import NamedRows
from gdnbench.report.plots.style import BASELINE, FLOOR, PALETTE, panels, tidy
from gdnbench.report.plots.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

EVERY_SHAPE, EMPTY_FLOOR = False, False
_SHORTEST_BAR, _LONGEST_BAR = 16, 36  # columns in the terminal


def draw(view: View) -> Picture:
    """Draws a panel for each shape."""
    shares = {shape: _shares(view, shape) for shape in view.shapes}
    most = max(map(len, shares.values()))
    picture, every = panels(len(shares), 5.0, 0.9 + 0.27 * most, view.title)
    for panel, (shape, bars) in zip(every, shares.items(), strict=True):
        _draw_bars(panel, bars)
        panel.set_title(f"share of the speed of light, {shape}", fontsize=10, loc="left")
    return picture


def show(view: View, console: Console) -> None:
    """Prints a bar for each kernel."""
    for shape in view.shapes:
        shares = _shares(view, shape)
        told = {figure.label: f" {share:6.1%}  {figure.time_us:.3f} µs" for figure, share in shares}
        numbers = max(map(len, told.values()))
        rows = NamedRows.of(console, list(told), _SHORTEST_BAR + numbers)
        whole = max(1, min(_LONGEST_BAR, rows.room - numbers))
        console.print(Text(f"share of the speed of light, {shape}", style="bold"))
        for figure, share in shares:
            bar = "█" * round(whole * min(share, 1.0))
            style = "dim" if figure.role is Role.FLOOR else "bold" if figure.role is Role.BASELINE else "cyan"
            rows.print(Text(f"{bar:{whole}}", style=style).append(told[figure.label], style="default"), figure.label)


def _shares(view: View, shape: Shape) -> list[tuple[Figure, float]]:
    """The kernels with their shares, largest first; the empty floor, which moves nothing, is no kernel to compare."""
    floor = next((each for each in view.timed(shape) if each.role is Role.FLOOR and each.nbytes > 0), None)
    if floor is None:
        message = f"{view.info.run_id} has no copying floor at {shape}, so no speed of light"
        raise UsageError(message, "the CPU has none; `gdnbench run` measures it on a GPU")
    shown = [each for each in view.at(shape) if each.role is not Role.FLOOR]
    if not shown:
        raise UsageError(f"only floors are to be drawn at {shape}", "name kernels with --kernel")
    return [(floor, 1.0), *((each, floor.time_us / each.time_us) for each in shown)]


def _draw_bars(panel: Axes, bars: list[tuple[Figure, float]]) -> None:
    colour = {Role.BASELINE: BASELINE, Role.FLOOR: FLOOR}
    places = range(len(bars))
    panel.barh(
        places, [100 * share for _, share in bars], color=[colour.get(each.role, PALETTE[0]) for each, _ in bars]
    )
    for place, (figure, share) in enumerate(bars):
        text = f" {100 * share:.1f} %   {figure.time_us:.3f} µs"
        panel.text(100 * share, place, text, va="center", fontsize=8, color="#222222")
    panel.set_yticks(places, [figure.label for figure, _ in bars])
    panel.invert_yaxis()
    panel.set_xlim(0, 145)  # room for the figures beside the longest bar
    panel.set_xticks(range(0, 101, 20))
    panel.set_xlabel("time of the copying floor / time of the kernel, %", fontsize=9, loc="left")
    tidy(panel)
    panel.spines["left"].set_visible(False)
    panel.spines["bottom"].set_bounds(0, 100)
    panel.tick_params(axis="y", length=0)
