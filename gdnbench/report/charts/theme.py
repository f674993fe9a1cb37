"""The look of charts: a colour for each kernel, and how a chart becomes a specification or a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdnbench.errors import MachineError
from gdnbench.render.console import check_output_file, write_output_file
from gdnbench.store.info import RunInfo

if TYPE_CHECKING:
    import altair as alt

VEGA_LITE = "6.4"  # the version, among vl-convert's, that Altair 6 writes
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # Altair names its patch release; Vega-Embed warns of that
PAGE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
PICTURE_FONT = "sans-serif"  # vl-convert's own font
ACROSS = 3  # most panels of a picture side by side
BASELINE_MARKER = "circle"
MARKERS = ("square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left")

# A kernel's slot is its index among those shown; it selects colour and marker.
SLOT = "indexof(shown, datum.kernel)"
SHOWN = f"datum.kernel === baseline && indexof(shown, baseline) >= 0 || {SLOT} >= 0"
WIDTH = "lit === datum.kernel ? 3.5 : 1.8"
OPACITY = "lit && lit !== datum.kernel ? 0.18 : 1"
MARKER = f"datum.kernel === baseline ? '{BASELINE_MARKER}' : {list(MARKERS)}[max(0, {SLOT}) % {len(MARKERS)}]"


Datum = dict[str, Any]  # the data of one mark of a chart, by field


PAPER, INK, MUTED, RULE, GRID, FLOOR = "#fff", "#1b1f24", "#57606a", "#c4cad1", "#e9ecef", "#8a929b"
"""Colours: of text and the baseline (INK), labels of axes (MUTED) and their lines (RULE), floors; in CSS notation."""

SERIES = ("#2463a8", "#c65102", "#1b7f4b", "#8243b8", "#b81f3d", "#0b7f93", "#8a5a2b", "#b8348a", "#6a7400")
"""The colour of each slot."""

KERNEL_COLOUR = f"datum.kernel === baseline ? '{INK}' : {list(SERIES)}[max(0, {SLOT}) % {len(SERIES)}]"
"""The colour of `datum.kernel`, as an expression of Vega: ink for the baseline, its slot's for others."""


def css() -> str:
    """Returns the colours as CSS variables, for the page around the charts."""
    plain = {"paper": PAPER, "ink": INK, "muted": MUTED, "rule": RULE, "grid": GRID, "floor": FLOOR}
    series = {f"c{slot}": colour for slot, colour in enumerate(SERIES)}
    return " ".join(f"--{name}: {colour};" for name, colour in (plain | series).items())


@contextmanager
def unchecked() -> Iterator[None]:
    """Disables Altair's check of every chart against Vega-Lite's schema, a third of a report's time.

    No stored data decides whether a chart is valid, and the tests hand every chart to Vega-Lite itself.
    """
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        yield


def expr(text: str) -> alt.ExprRef:
    """Makes an expression of Vega for a property's value."""
    import altair as alt

    return alt.ExprRef(text)


def tips(**fields: str) -> list[alt.Tooltip]:
    """Returns the lines of a tooltip: a title per field."""
    import altair as alt

    return [alt.Tooltip(field=name, title=title, type="nominal") for name, title in fields.items()]


def inline(data: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Returns data to embed in the specification."""
    import altair as alt

    return alt.InlineData(values=[dict(each) for each in data])


def layered(*layers: alt.Chart, data: Sequence[Mapping[str, Any]] | None = None) -> alt.LayerChart:
    """Stacks layers, with `data` for those that have none."""
    import altair as alt

    return alt.LayerChart(layer=list(layers), data=alt.Undefined if data is None else inline(data))


def slot_params(shown: Sequence[str], baseline: str) -> list[alt.Parameter]:
    """Returns the params of colours and markers, set by the page's list; `shown` has kernels by slot, empty if free."""
    import altair as alt

    return [
        alt.param(name="shown", value=list(shown)),
        alt.param(name="baseline", value=baseline),
        alt.param(name="lit", value=""),
    ]


def page_spec(chart: alt.LayerChart, height: int, description: str) -> dict[str, Any]:
    """Returns the specification of a chart as wide as its place on the page, and `height` pixels high."""
    import altair as alt

    fit = alt.AutoSizeParams(type="fit", contains="padding")
    placed = chart.properties(width="container", height=height, autosize=fit, description=description)
    padding = {"left": 2, "right": 6, "top": 4, "bottom": 2}
    spec = _styled(placed, font=PAGE_FONT, background="transparent", padding=padding).to_dict(validate=False)
    return {**spec, "$schema": SCHEMA}


SUFFIXES = (".png", ".svg")
NEEDED = ("altair", "vl_convert")
_SCALE = 2  # pixels of a PNG per pixel of the chart


def check_picture(path: Path, example: str, option: str = "-o") -> None:
    """Refuses an undrawable picture of an option; `example` is a name that is not refused."""
    check_output_file(path, option, SUFFIXES, example)
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise MachineError(f"{option} needs {', '.join(missing)}", "pip install 'gdnbench[report]'")


def write_picture(path: Path, panels: Sequence[alt.LayerChart], title: str, across: int = ACROSS) -> None:
    """Draws panels into a PNG or SVG file, at most `across` in a row, each with its own axes and full names."""
    import vl_convert

    spec = _picture(panels, title, across).to_dict(validate=False)
    if path.suffix.lower() == ".svg":
        content = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    else:
        content = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=_SCALE)
    write_output_file(path, content)


def heading(info: RunInfo) -> str:
    """Returns what stands above a chart: the GPU, card and host whose times it shows, and the run."""
    return ", ".join(filter(None, [info.device, info.place, info.run_id]))


def _picture(panels: Sequence[alt.LayerChart], title: str, across: int) -> alt.ConcatChart:
    import altair as alt

    heading = alt.TitleParams(
        title, anchor="start", fontSize=11, fontWeight="normal", color=MUTED, offset=14, frame="bounds"
    )
    whole = alt.concat(*panels, columns=across, spacing=34, title=heading).resolve_scale(
        x="independent", y="independent", color="independent", shape="independent"
    )
    styled: alt.ConcatChart = _styled(whole, font=PICTURE_FONT, background=PAPER, padding=14, label_limit=0)
    return styled


def panel_title(text: str, *below: str) -> alt.TitleParams:
    """Returns a panel's title, with smaller lines on how to read it."""
    import altair as alt

    return alt.TitleParams(
        text, subtitle=list(below), anchor="start", fontSize=13, fontWeight="bold", color=INK,
        subtitleFontSize=11, subtitleColor=MUTED, offset=10,
    )  # fmt: skip


_PAGE_NAME = 340  # pixels of a name on the page: shorter ones would make names equal that differ in their last params


def _styled(
    chart: Any, *, font: str, background: str, padding: int | Mapping[str, int], label_limit: int = _PAGE_NAME
) -> Any:
    import altair as alt

    return chart.configure(
        font=font,
        background=background,
        padding=padding,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=MUTED,
            titleColor=MUTED,
            gridColor=GRID,
            domainColor=RULE,
            tickColor=RULE,
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
            labelLimit=label_limit,
        ),
        text=alt.MarkConfig(fontSize=11, fill=INK),
    )
