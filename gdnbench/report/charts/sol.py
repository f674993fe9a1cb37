"""The chart of shares of the bound: the time of the workload's bound over each kernel's, as bars.

Where the run has kernel times they are by these; else the launch is on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gdnbench.errors import UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.render.codec import GLYPHS
from gdnbench.render.units import flops_bind
from gdnbench.report.charts import theme
from gdnbench.report.charts.layout import NamedRows
from gdnbench.report.charts.selection import ChartView, interval_text, time_us
from gdnbench.report.charts.theme import LIGHT, Datum, Theme, expr

if TYPE_CHECKING:
    import altair as alt

EVERY_WORKLOAD, EMPTY_FLOOR, KERNEL_TIMES = False, False, True
BAR, AROUND = 17, 44  # pixels: a bar, and the axis with the paddings
_ROOM, _WIDER_ROOM = 1.36, 1.45  # multiples of the longest bar, for a column of labels: of shares, and of times as well
_PICTURE_WIDTH = 440  # pixels
_SHORTEST_BAR, _LONGEST_BAR = 16, 36  # columns in the terminal


def page_bars(rows: Sequence[Measurement]) -> list[Datum]:
    """Returns the page's data: a bar per kernel whose share of the bound is known."""
    return [_page_bar(row) for row in rows if row.role.does_the_work and not math.isnan(_sol(row))]


def sol_chart(bars: Sequence[Datum], colours: Theme, *, room: float = _ROOM) -> alt.LayerChart:
    """Draws bars from the top in the given order, labels in a column at the right, and a dashed line at the floor."""
    import altair as alt

    end = room * max(1.0, *(float(bar["sol"]) for bar in bars))
    y = alt.Y(field="kernel", type="nominal", sort=None, axis=alt.Axis(title=None, ticks=False, domain=False))
    x = alt.X(
        field="sol",
        type="quantitative",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(title=None, format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    fills = {"baseline": colours.ink, "floor": colours.floor, "kernel": colours.bar}
    tooltip = theme.tips(kernel="kernel", label="of bound", time="time, µs", verdict="verdict")
    return theme.layered(
        alt.Chart()
        .mark_bar(height=alt.RelativeBandSize(band=0.68), fill=expr(f"{fills}[datum.role]"))
        .encode(y=y, x=x, tooltip=tooltip),
        alt.Chart()
        .mark_text(align="right", fill=colours.ink)
        .encode(y=y, x=alt.datum(end), text=alt.Text(field="label", type="nominal")),
        alt.Chart().mark_rule(stroke=colours.floor, strokeDash=[5, 4]).encode(x=alt.datum(1)),
        data=bars,
    )


def draw(view: ChartView) -> alt.ConcatChart:
    """Draws a panel per workload."""
    panels = [_panel(workload, _shares(view, workload)) for workload in view.workloads]
    return theme.picture(panels, view.title)


def show(view: ChartView, console: Console) -> None:
    """Prints a bar per kernel."""
    for workload in view.workloads:
        shares = _shares(view, workload)
        message = {row.case.label: f" {share:6.1%}  {time_us(row):.3f} µs" for row, share in shares}
        numbers = max(map(len, message.values()))
        named = NamedRows.of(console, list(message), _SHORTEST_BAR + numbers)
        whole = max(1, min(_LONGEST_BAR, named.room - numbers))
        console.print(Text(f"share of the bound, {_kind(shares)}, {workload}", style="bold"))
        for row, share in shares:
            bar = "█" * round(whole * min(share, 1.0))
            style = "dim" if row.role is Role.FLOOR else "bold" if row.role is Role.BASELINE else "cyan"
            text = message[row.case.label]
            named.print(Text(f"{bar:{whole}}", style=style).append(text, style="default"), row.case.label)


def _page_bar(row: Measurement) -> Datum:
    verdict = row.versus.verdict if row.versus else ""
    sol = _sol(row)
    return {
        "kernel": row.case.label,
        "sol": sol,
        "label": f"{sol:.1%} {GLYPHS.get(verdict, theme.EN_SPACE)}",
        "time": interval_text(row),
        "verdict": verdict.upper() or "BASELINE",
        "role": _role(row),
    }


def _sol(row: Measurement) -> float:
    return row.timing.sol if row.timing else math.nan


def _role(row: Measurement) -> str:
    return row.role.value if row.role in {Role.BASELINE, Role.FLOOR} else "kernel"


def _panel(workload: Workload, shares: Sequence[tuple[Measurement, float]]) -> alt.LayerChart:
    bars = [
        {"kernel": row.case.label, "sol": share, "label": _label(row, share), "role": _role(row)}
        for row, share in shares
    ]
    bound = "bound, FLOPs at peak," if flops_bind(row for row, _ in shares) else "copying floor"
    kind = _kind(shares)
    title = theme.panel_title(f"share of the bound, {workload}", f"time of the {bound} / time of the kernel, {kind}")
    chart = sol_chart(bars, LIGHT, room=_WIDER_ROOM)
    return chart.properties(width=_PICTURE_WIDTH, height=BAR * len(bars), title=title)


def _kind(shares: Sequence[tuple[Measurement, float]]) -> str:
    return "by kernel times" if any(row.clock for row, _ in shares) else "launch on both sides"


def _label(row: Measurement, share: float) -> str:
    return f"{share:.1%}{2 * theme.EN_SPACE}{time_us(row):.3f} µs"


def _shares(view: ChartView, workload: Workload) -> list[tuple[Measurement, float]]:
    """Returns kernels and shares, largest first, after the copying floor if it is the bound; never the empty floor."""
    racing = [row for row in view.at(workload) if row.role.does_the_work]
    if flops_bind(racing):
        return [(row, _sol(row)) for row in racing]
    floor = next((row for row in view.measured(workload) if row.role is Role.FLOOR and row.nbytes > 0), None)
    if floor is None:
        message = f"{view.info.run_id} has no copying floor at {workload}, so no share of it"
        reason = "its op has none" if view.info.on_gpu else "a run on the CPU measures none"
        raise UsageError(message, f"{reason}; `gdnbench show {view.info.run_id} --chart time` needs no floor")
    if not racing:
        raise UsageError(f"only floors are to be drawn at {workload}", "name kernels with --kernel")
    return [(floor, 1.0), *((row, time_us(floor) / time_us(row)) for row in racing)]
