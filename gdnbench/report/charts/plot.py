"""The charts by name, and their output: a picture file or the terminal."""

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
from gdnbench.render.console import check_output_file, write_output_file
from gdnbench.report.charts.theme import VEGA_LITE, unchecked
from gdnbench.store.info import read_info
from gdnbench.store.sweep import read_sweep
from gdnbench.wording import did_you_mean

if TYPE_CHECKING:
    import altair as alt

    from gdnbench.report.charts.selection import ChartView

CHARTS = {
    "time": "time against the size of the workload",
    "sol": "share of the bound",
    "samples": "how samples lie",
    "rounds": "times over the rounds, which shows drift",
    "sweep": "a sweep's points",
}
FORMATS = (".png", ".svg", ".pdf")
NEEDED = ("altair", "vl_convert")
SCALE = 2  # pixels of a PNG per pixel of the chart
_MODULES = {"time": "times"}  # module names that differ from the chart's


class ChartModule(Protocol):
    """The interface of a chart's module. `KERNEL_TIMES` shows kernel times where the run has them.

    `EVERY_WORKLOAD` shows all workloads of a line by default, rather than one. `EMPTY_FLOOR` shows the floor that moves
    nothing by default; far from all others, it squeezes them.
    """

    EVERY_WORKLOAD: bool
    EMPTY_FLOOR: bool
    KERNEL_TIMES: bool

    def draw(self, view: ChartView) -> alt.ConcatChart:
        """Draws the chart as a picture."""

    def show(self, view: ChartView, console: Console) -> None:
        """Prints the chart."""


def check_chart(chart: str) -> None:
    """Raises UnknownNameError, with the nearest name, for a chart that there is not."""
    if chart not in CHARTS:
        hint = did_you_mean(chart, CHARTS, f"the charts are {', '.join(CHARTS)}", most=1)
        raise UnknownNameError(f"there is no chart {chart}", hint)


def check_choice(chart: str, kernels: str, workloads: Sequence[Workload] | None) -> None:
    """Raises UsageError for a choice among the points of a sweep, whose chart shows all of them."""
    if chart == "sweep" and (kernels or workloads is not None):
        raise UsageError("the chart of a sweep shows all of its points", "leave out --kernel and --shape")


def check_picture(path: Path, option: str = "--plot") -> None:
    """Refuses an undrawable picture before anything is measured for it; `option` is the one that named the file.

    Raises UsageError for an unknown format, a missing folder, or anything but a regular file; MachineError for a folder
    or file that cannot be written, or without the drawing libraries.
    """
    check_output_file(path, option, FORMATS, "chart.png")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MachineError(f"{option} needs {', '.join(missing)}", "pip install 'gdnbench[plot]'")


def print_chart(
    console: Console, chart: str, folder: Path, kernels: str = "", workloads: Sequence[Workload] | None = None
) -> None:
    """Prints a chart of a run; raises as `draw_chart` does, and ChartError if the terminal's chart cannot be drawn."""
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
    """Draws a chart of a run into a file, whose suffix is the format.

    Raises UsageError if the run has nothing to show, UnknownNameError for a kernel or workload that it lacks,
    MachineError if the file cannot be written.
    """
    if chart == "sweep":
        draw_sweep(folder, path)
        return
    module, view = _open(chart, folder, kernels, workloads)
    with unchecked():
        _write(module.draw(view), path)


def draw_sweep(folder: Path, path: Path) -> None:
    """Draws a stored sweep into a file; raises UsageError without swept times, MachineError if it cannot be written."""
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
    shown = {"every": module.EVERY_WORKLOAD, "empty": module.EMPTY_FLOOR, "by_kernel": module.KERNEL_TIMES}
    return module, open_view(folder, kernels, workloads, **shown)


def _read_sweep(folder: Path, name: str) -> Sweep:
    sweep = read_sweep(folder)
    if sweep is None or not sweep.plateaus:
        raise UsageError(f"{name} has no swept times to draw", "`gdnbench sweep` makes them: see `gdnbench sweep -h`")
    return sweep


def _write(chart: alt.ConcatChart, path: Path) -> None:
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
