"""The chart of errors against the length of sequences: a panel for the state and one for the output of each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdnbench.report.charts import theme
from gdnbench.report.charts.theme import MARKERS, SERIES

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 340, 240  # pixels of a panel
_ROOM = 1.6  # factor around the errors: what does not change should look so
ERRORS = {"state": ("state_error", "emulated_state_error"), "output": ("output_error", "emulated_output_error")}
"""By what is off, the fields of its error and of that of the emulation."""


def draw_lengths(marks: Sequence[Mapping[str, Any]], path: Path, device: str) -> None:
    """Draws the errors at marks, some at least, as `verify --length --json` has them, into a file."""
    cases: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for mark in marks:
        if mark["tokens"]:
            cases.setdefault((mark["label"], mark["state_type"]), []).append(mark)
    with theme.unchecked():
        panels = [_panel(own, case, what) for case, own in cases.items() for what in ERRORS]
        title = f"Relative error of the last 64 tokens, on {device}. Dashed: roundings of state and output alone."
        theme.write_picture(path, panels, title, across=len(ERRORS))


def _panel(marks: Sequence[Mapping[str, Any]], case: tuple[str, str], what: str) -> alt.LayerChart:
    import altair as alt

    kinds = list(dict.fromkeys(f"{mark['profile']} {mark['keys']}".strip() for mark in marks))
    own, emulated = ERRORS[what]
    data = [
        {
            "kind": f"{mark['profile']} {mark['keys']}".strip(),
            "tokens": mark["tokens"],
            "own": mark[own],
            "emulated": mark[emulated],
        }
        for mark in marks
    ]
    lengths = sorted({mark["tokens"] for mark in marks})
    errors = [each[name] for each in data for name in ("own", "emulated") if each[name]]
    log = alt.Scale(type="log", nice=False, padding=12)
    high = alt.Scale(type="log", nice=False, domain=[min(errors) / _ROOM, max(errors) * _ROOM])
    ticks = alt.Axis(title="tokens (log)", values=lengths, grid=False, labelExpr=_SHORT)
    colour = alt.Scale(domain=kinds, range=list(SERIES[: len(kinds)]))
    shape = alt.Scale(domain=kinds, range=["circle", *MARKERS][: len(kinds)])
    legend = alt.Legend(title=None, symbolOpacity=1, labelLimit=0)
    base = alt.Chart().encode(
        x=alt.X("tokens:Q", scale=log, axis=ticks), color=alt.Color("kind:N", scale=colour, legend=legend)
    )
    error = alt.Axis(title=f"error of the {what} (log)", format=".1e", tickCount=5)

    def at(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=high, axis=error)

    return theme.layered(
        base.mark_line(strokeDash=[4, 3], strokeWidth=1.2).encode(y=at("emulated")),
        base.mark_line(strokeWidth=1.8).encode(y=at("own")),
        base.mark_point(filled=True, size=46, opacity=1).encode(
            y=at("own"), shape=alt.Shape("kind:N", scale=shape, legend=legend)
        ),
        data=data,
    ).properties(width=WIDTH, height=HEIGHT, title=theme.panel_title(f"{case[0]}, {case[1]} state", what))


_SHORT = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~g') + 'k' : datum.label"
)
