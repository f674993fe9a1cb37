"""The chart of a launch from within: when each warp of some SMs was in which phase."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.errors import UsageError
from gdnbench.profile.stamps import Stamps
from gdnbench.profile.timeline import TimeSpan, stamped_spans, write_perfetto
from gdnbench.report.charts import theme
from gdnbench.report.charts.theme import SERIES, SUFFIXES, check_picture

if TYPE_CHECKING:
    import altair as alt

WIDTH, ROW = 640, 13  # pixels of a picture, and of a warp
_MOST_WARPS = 48  # that a chart shows
NOTE = "One launch with a cold L2, whose warps note each pass through a mark; the first warps, by SM"


def timeline_chart(spans: Sequence[TimeSpan]) -> tuple[alt.LayerChart, int]:
    """Draws a bar for each pass, a row for each of the first warps by SM; returns chart and height in pixels."""
    import altair as alt

    warps = sorted({span.warp for span in spans})[:_MOST_WARPS]
    names = {warp: "SM {}, block {}, warp {}".format(*warp) for warp in warps}
    data = [
        {
            "warp": names[span.warp],
            "phase": span.phase,
            "begin": round(span.begin_us, 4),
            "end": round(span.begin_us + span.length_us, 4),
        }
        for span in spans
        if span.warp in names
    ]
    phases = list(dict.fromkeys(span.phase for span in spans))
    scale = alt.Scale(domain=phases, range=list(islice(cycle(SERIES), len(phases))))
    bars = (
        alt.Chart()
        .mark_bar(height={"band": 0.9})
        .encode(
            x=alt.X("begin:Q", axis=alt.Axis(title="µs since the first warp's begin")),
            x2="end:Q",
            y=alt.Y("warp:N", sort=list(names.values()), axis=alt.Axis(title=None, labelLimit=0)),
            color=alt.Color("phase:N", scale=scale, legend=alt.Legend(title=None)),
            tooltip=theme.tips(warp="warp", phase="phase", begin="from, µs", end="to, µs"),
        )
    )
    return theme.layered(bars, data=data), ROW * len(names) + 40


def check_timeline(path: Path) -> None:
    """Refuses a file that can be neither a trace for Perfetto nor a picture, as `check_picture` does."""
    if not path.name.endswith((".json", ".json.gz")):
        check_picture(path, "timeline.svg", "--timeline")


def write_timeline(path: Path, found: Sequence[Stamps]) -> None:
    """Writes when each warp was in which phase: a file for Perfetto, or a picture of the first warps, by its suffix.

    Raises UsageError unless passes were noted of exactly one launch; MachineError if it cannot be written.
    """
    noted = [stamps for stamps in found if stamps.passes]
    if len(noted) != 1:
        hint = "stamp one kernel anew, and of several launches name one with --launch"
        raise UsageError(f"a timeline is of one launch, and {len(noted)} of these have passes", hint)
    about, spans = noted[0].about, stamped_spans(noted[0])
    if path.suffix not in SUFFIXES:
        write_perfetto(path, spans)
        return
    with theme.unchecked():
        chart, height = timeline_chart(spans)
        title = theme.panel_title(f"{about.title}  {about.workload}  on {about.gpu}", NOTE)
        theme.write_picture(path, [chart.properties(width=WIDTH, height=height, title=title)], "")
