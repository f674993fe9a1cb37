"""The charts by name, and how each is made: every one has `draw(view)` for files and `show(view, console)`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from rich.console import Console
from rich.text import Text

from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model import Shape
from gdnbench.report.plots.view import View, open_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

CHARTS = {
    "time": "time against batch size",
    "sol": "share of the speed of light",
    "samples": "how samples lie",
    "rounds": "times over the rounds, which shows drift",
    "sweep": "a sweep's points",
}


class Chart(Protocol):
    """What the module of a chart holds.

    Attributes:
        EVERY_SHAPE: whether it shows all batch sizes by default, rather than one shape.
        EMPTY_FLOOR: whether it shows the floor that moves nothing by default; far from all others, it squeezes them.
    """

    EVERY_SHAPE: bool
    EMPTY_FLOOR: bool

    def draw(self, view: View) -> Picture:
        """The chart as a picture."""

    def show(self, view: View, console: Console) -> None:
        """Prints the chart."""


def split_words(words: Sequence[str]) -> tuple[str, str]:
    """The run and the chart that were named, in either order; the run may be left out.

    Raises:
        UsageError: if no chart is named, or too much.
        UnknownNameError: for a chart that does not exist, with the nearest.
    """
    told = ", ".join(CHARTS)
    if not 1 <= len(words) <= 2:
        raise UsageError("name a run, if not the latest, and a chart", f"the charts are {told}")
    run, chart = ("", *words)[-2:]
    if chart not in CHARTS and run in CHARTS:
        run, chart = chart, run
    if chart not in CHARTS:
        near = get_close_matches(chart, CHARTS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the charts are {told}"
        raise UnknownNameError(f"there is no chart {chart}", hint)
    return run, chart


def print_chart(
    console: Console, chart: str, folder: Path, kernels: str = "", shapes: Sequence[Shape] | None = None
) -> None:
    """Prints a chart of a run.

    Raises:
        UsageError: if the run has nothing to show in it.
        UnknownNameError: for a kernel or shape that the run does not have.
        ChartError: if the terminal's chart cannot be drawn.
    """
    if chart == "sweep":
        _print_sweep(console, folder)
        return
    module = _module(chart)
    view = open_view(folder, kernels, shapes, every=module.EVERY_SHAPE, empty=module.EMPTY_FLOOR)
    console.print(Text(view.title, style="dim"), soft_wrap=True)
    module.show(view, console)


def draw_chart(path: Path, chart: str, folder: Path, kernels: str = "", shapes: Sequence[Shape] | None = None) -> None:
    """Draws a chart of a run into a file, whose format its name says.

    Raises:
        UsageError: if the run has nothing to show in it.
        UnknownNameError: for a kernel or shape that the run does not have.
        MachineError: if the file cannot be written.
    """
    if chart == "sweep":
        from gdnbench.report.sweep_figure import draw_sweep

        draw_sweep(folder, path)
        return
    from gdnbench.report.picture_file import save_picture
    from gdnbench.report.plots.style import house_style

    module = _module(chart)
    view = open_view(folder, kernels, shapes, every=module.EVERY_SHAPE, empty=module.EMPTY_FLOOR)
    with house_style():
        save_picture(module.draw(view), path)


def check_choice(chart: str, kernels: str, shapes: Sequence[Shape] | None) -> None:
    """Refuses to choose among the points of a sweep, whose chart shows all of them.

    Raises:
        UsageError: for a choice that would not be heeded.
    """
    if chart == "sweep" and (kernels or shapes is not None):
        raise UsageError("the chart of a sweep shows all of its points", "leave out --kernel, --shape and --heads")


def _module(chart: str) -> Chart:
    return cast(Chart, import_module(f"gdnbench.report.plots.{chart}_chart"))


def _print_sweep(console: Console, folder: Path) -> None:
    from gdnbench.report.sweep_chart import print_charts
    from gdnbench.store import read_sweep

    sweep = read_sweep(folder)
    if sweep is None or not sweep.plateaus:
        raise UsageError(f"{folder.name} has no swept times to draw", "gdnbench sweep decode-triton --param BV")
    print_charts(console, sweep, nullcontext())
