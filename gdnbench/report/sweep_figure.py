"""A sweep as a picture file: a line for one param, a heat map for two, a panel for each kernel and shape."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdnbench.errors import UsageError
from gdnbench.model import ParamValue, Plateau, Point, Sweep
from gdnbench.report.picture_file import save_picture
from gdnbench.report.sweep_view import best_at, leading_params, tell, varied
from gdnbench.store import RunInfo, read_info, read_sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_INCHES = (4.6, 3.6)
MOST_ACROSS = 3
WORST_PERCENT = 20.0  # the colours' end: slower points are all alike bad


def draw_sweep(folder: Path, path: Path) -> None:
    """Draws a stored sweep.

    Raises:
        UsageError: if the run swept nothing, or no point has a time.
        MachineError: if the file cannot be written.
    """
    info, sweep = read_info(folder), read_sweep(folder)
    if sweep is None or not sweep.plateaus:
        raise UsageError(f"{info.run_id} has no swept times to draw", "gdnbench sweep decode-triton --param BV")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(len(sweep.plateaus), MOST_ACROSS)
    down = -(-len(sweep.plateaus) // across)
    figure = Figure(figsize=(PANEL_INCHES[0] * across, PANEL_INCHES[1] * down + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for panel, plateau in zip(panels, sweep.plateaus, strict=False):
        _draw_panel(panel, sweep, plateau)
    for panel in panels[len(sweep.plateaus) :]:
        panel.set_axis_off()
    figure.suptitle(_title(info), fontsize=10)
    save_picture(figure, path)


def _title(info: RunInfo) -> str:
    gpu = (info.machine.get("gpu") or {}).get("name", info.gpu)
    return f"% slower than the best point, {gpu}\n{info.run_id}"


def _draw_panel(panel: Axes, sweep: Sweep, plateau: Plateau) -> None:
    points = sweep.of(plateau)
    names = varied(sweep.axes[plateau.kernel])
    simplest = sweep.point(plateau, plateau.simplest)
    panel.set_title(f"{plateau.kernel} {plateau.shape}\n{tell(simplest.params, list(names))}", fontsize=9)
    if len(names) == 1:
        name, values = next(iter(names.items()))
        _draw_line(panel, points, name, values)
    elif names:
        peers = [sweep.of(other) for other in sweep.plateaus if other.kernel == plateau.kernel]
        _draw_heat(panel, points, names, leading_params(peers, names))


def _draw_line(panel: Axes, points: Sequence[Point], name: str, values: Sequence[ParamValue]) -> None:
    best = best_at(points, [name])
    known = [(place, best[value,]) for place, value in enumerate(values) if (value,) in best]
    places = [place for place, _ in known]
    middle = [100 * point.slower_by for _, point in known]
    below = [100 * (point.slower_by - point.slower_lo) for _, point in known]
    above = [100 * (point.slower_hi - point.slower_by) for _, point in known]
    panel.errorbar(places, middle, yerr=[below, above], marker="o", capsize=3, color="#2463a8")
    panel.set_xticks(range(len(values)), [str(value) for value in values])
    panel.set_xlabel(name)
    panel.set_ylabel("% slower")
    panel.set_ylim(bottom=min(0.0, *middle))
    panel.grid(axis="y", alpha=0.3)


def _draw_heat(
    panel: Axes, points: Sequence[Point], names: Mapping[str, Sequence[ParamValue]], leading: tuple[str, str]
) -> None:
    down, across = leading
    others = [name for name in names if name not in leading]
    best = best_at(points, [down, across])
    cells: list[list[Any]] = [[best.get((row, column)) for column in names[across]] for row in names[down]]
    percents = [[100 * point.slower_by if point else float("nan") for point in row] for row in cells]
    panel.imshow(percents, cmap="YlOrRd", vmin=0.0, vmax=WORST_PERCENT, aspect="auto")
    for row, line in enumerate(percents):
        for column, value in enumerate(line):
            text = "-" if math.isnan(value) else f"{value:.1f}"
            colour = "white" if value > 0.6 * WORST_PERCENT else "black"
            panel.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    panel.set_xticks(range(len(names[across])), [str(value) for value in names[across]])
    panel.set_yticks(range(len(names[down])), [str(value) for value in names[down]])
    panel.set_xlabel(across + (f"   (best of {', '.join(others)} in each cell)" if others else ""))
    panel.set_ylabel(down)
