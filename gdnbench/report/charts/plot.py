"""The charts by name, and where each goes: into a picture file, or into the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from rich.console import Console
from rich.text import Text

from gdnbench.errors import MachineError, UnknownNameError, UsageError
from gdnbench.model.sweep import Sweep
from gdnbench.model.workload import Workload
from gdnbench.report.charts.theme import VEGA_LITE, unchecked
from gdnbench.report.output_file import check_output_file, write_output_file
from gdnbench.store.find import PUBLISHED_FOLDER
from gdnbench.store.info import read_info
from gdnbench.store.sweep import read_sweep
from gdnbench.wording import did_you_mean

if TYPE_CHECKING:
    import altair as alt

    from gdnbench.report.charts.selection import ChartView

CHARTS = {
    "time": "time against the size of the workload",
    "sol": "share of the speed of light",
    "samples": "how samples lie",
    "rounds": "times over the rounds, which shows drift",
    "sweep": "a sweep's points",
}
FORMATS = (".png", ".svg", ".pdf")
NEEDED = ("altair", "vl_convert")
SCALE = 2  # pixels of a PNG for each of the chart's
_MODULES = {"time": "times"}  # of those whose module is not called as they are


class ChartModule(Protocol):
    """What the module of a chart holds.

    Attributes:
        EVERY_WORKLOAD: whether it shows all workloads of a line by default, rather than one.
        EMPTY_FLOOR: whether it shows the floor that moves nothing by default; far from all others, it squeezes them.
    """

    EVERY_WORKLOAD: bool
    EMPTY_FLOOR: bool

    def draw(self, view: ChartView) -> alt.ConcatChart:
        """The chart as a picture."""

    def show(self, view: ChartView, console: Console) -> None:
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
    if not run and Path(chart).parent.name == PUBLISHED_FOLDER:
        return chart, next(iter(CHARTS))  # no run, as whoever looks for it says
    if chart not in CHARTS:
        hint = did_you_mean(chart, CHARTS, f"the charts are {told}", most=1)
        raise UnknownNameError(f"there is no chart {chart}", hint)
    return run, chart


def check_choice(chart: str, kernels: str, workloads: Sequence[Workload] | None) -> None:
    """Refuses to choose among the points of a sweep, whose chart shows all of them.

    Raises:
        UsageError: for a choice that would not be heeded.
    """
    if chart == "sweep" and (kernels or workloads is not None):
        raise UsageError("the chart of a sweep shows all of its points", "leave out --kernel and --shape")


def check_picture(path: Path, option: str = "--plot") -> None:
    """Refuses what could not be drawn, before anything is measured for it.

    Args:
        path: where to draw.
        option: what the file was named with.

    Raises:
        UsageError: for a format that is not known, a folder that does not exist, or what is no regular file.
        MachineError: for a folder or a file that cannot be written, or without the libraries that draw.
    """
    check_output_file(path, option, FORMATS, "chart.png")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MachineError(f"{option} needs {', '.join(missing)}", "pip install 'gdnbench[plot]'")


def print_chart(
    console: Console, chart: str, folder: Path, kernels: str = "", workloads: Sequence[Workload] | None = None
) -> None:
    """Prints a chart of a run.

    Raises:
        UsageError: if the run has nothing to show in it.
        UnknownNameError: for a kernel or workload that the run does not have.
        ChartError: if the terminal's chart cannot be drawn.
    """
    if chart == "sweep":
        from gdnbench.report.charts.sweep import print_sweep_charts

        print_sweep_charts(console, _read_sweep(folder, folder.name), nullcontext())
        return
    module, view = _open(chart, folder, kernels, workloads)
    console.print(Text(view.title, style="dim"), soft_wrap=True)
    module.show(view, console)


def draw_chart(
    path: Path, chart: str, folder: Path, kernels: str = "", workloads: Sequence[Workload] | None = None
) -> None:
    """Draws a chart of a run into a file, whose format its name says.

    Raises:
        UsageError: if the run has nothing to show in it.
        UnknownNameError: for a kernel or workload that the run does not have.
        MachineError: if the file cannot be written.
    """
    if chart == "sweep":
        draw_sweep(folder, path)
        return
    module, view = _open(chart, folder, kernels, workloads)
    with unchecked():
        _write(module.draw(view), path)


def draw_sweep(folder: Path, path: Path) -> None:
    """Draws a stored sweep into a file, whose format its name says.

    Raises:
        UsageError: if the run swept nothing, or no point has a time.
        MachineError: if the file cannot be written.
    """
    from gdnbench.report.charts.sweep import draw_sweep_panels

    info = read_info(folder)
    sweep = _read_sweep(folder, info.run_id)
    gpu = (info.machine.get("gpu") or {}).get("name", info.gpu)
    with unchecked():
        _write(draw_sweep_panels(sweep, f"{gpu}, {info.run_id}"), path)


def _open(
    chart: str, folder: Path, kernels: str, workloads: Sequence[Workload] | None
) -> tuple[ChartModule, ChartView]:
    from gdnbench.report.charts.selection import open_view

    module = cast(ChartModule, import_module(f"gdnbench.report.charts.{_MODULES.get(chart, chart)}"))
    return module, open_view(folder, kernels, workloads, every=module.EVERY_WORKLOAD, empty=module.EMPTY_FLOOR)


def _read_sweep(folder: Path, name: str) -> Sweep:
    sweep = read_sweep(folder)
    if sweep is None or not sweep.plateaus:
        raise UsageError(f"{name} has no swept times to draw", "`gdnbench sweep` makes them: see `gdnbench sweep -h`")
    return sweep


def _write(chart: alt.ConcatChart, path: Path) -> None:
    """Writes a picture in the format that its name ends in."""
    import vl_convert

    spec, suffix = chart.to_dict(validate=False), path.suffix.lower()
    content: bytes
    if suffix == ".svg":
        content = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    elif suffix == ".pdf":
        content = vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE)
    else:
        content = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=SCALE)
    write_output_file(path, content)
