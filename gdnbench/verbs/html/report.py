"""`gdnbench report`: stored runs as one HTML file: what is read of each, the page's parts and tables, and rendering."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gdnbench.analyse.suite import FastestKernel, fastest_of
from gdnbench.codec import finite
from gdnbench.errors import MachineError
from gdnbench.model.measurement import Measurement, Sweep
from gdnbench.model.status import Clock, Role, Status
from gdnbench.model.workload import Workload
from gdnbench.origin import RESULTS
from gdnbench.render.console import check_output_file, write_output_file
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Column, Note, Table
from gdnbench.render.units import GLYPHS, factor, half_text, is_interval, relative_half_width
from gdnbench.report.charts.selection import KernelChoice, in_order, timed
from gdnbench.report.charts.theme import VEGA_LITE, css, unchecked
from gdnbench.store.files import is_stored
from gdnbench.store.find import compares, find_run
from gdnbench.store.info import RunInfo
from gdnbench.store.measurements import read_clocks, read_run
from gdnbench.store.samples import ROUNDS, CaseRounds, read_case_rounds
from gdnbench.store.tables import read_sweep
from gdnbench.verbs.options import ResultsOption, complete_runs
from gdnbench.wording import plural

if TYPE_CHECKING:
    from jinja2 import Environment


NEEDED = ("jinja2", "altair", "vl_convert")


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN", help="Ids, starts, labels, folders, GPUs; the latest run.", autocompletion=complete_runs
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    results: ResultsOption = RESULTS,
) -> None:
    """Write runs and sweeps as one HTML file, with sortable tables and charts. Needs no GPU and no network."""
    check_output_file(output, "--output", (".html", ".htm"), "report.html")
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise MachineError(f"a report needs {', '.join(missing)}", "pip install 'gdnbench[report]'")
    folders = [find_run(results, name) for name in runs or ()] or [find_run(results, serves=compares)]
    write_report(list({folder.resolve(): folder for folder in folders}.values()), output)
    line = Note(f"{output}  ({output.stat().st_size / 1e6:.2f} MB)", whole=True)
    opened = ["python3", "-m", "webbrowser", output.absolute().as_uri()]
    print_answer(Answer(text=lambda _: [line], next=opened))


def write_report(runs: Sequence[Path], output: Path) -> None:
    """Writes runs, in the order wanted, as a report in one step; replaces an existing file."""
    from gdnbench.verbs.html.page import page_of

    with unchecked():
        page = page_of([read_stored(folder) for folder in runs])
    write_output_file(output, render(page).encode())


SCRIPTS = ("charts.js", "pickers.js", "tables.js")
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_OPENING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(page: Mapping[str, Any]) -> str:
    """Renders the file's text."""
    from markupsafe import Markup

    charts = [chart for section in page["sections"] for chart in section.all_charts]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            style=Markup(f":root {{ {css()} }}\n{_asset('report.css')}"),
            scripts=[Markup(text) for text in (_vega() if charts else "", *map(_asset, SCRIPTS)) if text],
            specs={chart.id: Markup(inline_json(chart.spec)) for chart in charts},
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("gdnbench.verbs.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def inline_json(document: Any) -> str:
    """Returns JSON that is safe inside a script element, whatever its texts say."""
    text = json.dumps(finite(document), ensure_ascii=False, separators=(",", ":"))
    for character, escaped in _OPENING.items():
        text = text.replace(character, escaped)
    return text


@cache
def _vega() -> str:
    """Returns Vega, Vega-Lite and Vega-Embed as a script; bundling takes a second."""
    import vl_convert

    text = str(vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE))
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return (files("gdnbench.verbs.html") / "assets" / name).read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """What a run wrote, except its samples; `rounds` are microseconds by case id and further clock.

    `kernel_times` are by CUPTI, by case id; without verdicts where the run has none because its clocks disagree.
    """

    folder: Path
    info: RunInfo
    rows: tuple[Measurement, ...]
    kernel_times: dict[str, Measurement]
    rounds: dict[tuple[str, Clock | None], CaseRounds]
    sweep: Sweep | None

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Every workload, in the order of charts."""
        return in_order(row.case.workload for row in self.rows)

    def at(self, workload: Workload) -> list[Measurement]:
        """Returns the rows of one workload."""
        return [row for row in self.rows if row.case.workload == workload]

    def kernel_times_of(self, rows: Sequence[Measurement]) -> list[Measurement]:
        """Returns the kernel times of some rows, without rows that have none."""
        return [self.kernel_times[row.case.id] for row in rows if row.case.id in self.kernel_times]

    def leading(self, rows: Sequence[Measurement]) -> list[Measurement]:
        """Returns the kernel times of some rows; the rows themselves where none has one."""
        return self.kernel_times_of(rows) or list(rows)

    def fastest(self, workload: Workload) -> FastestKernel | None:
        """Returns the fastest kernel of a workload, by kernel times where it has any; None without times."""
        rows = self.leading(self.at(workload))
        rounds = {case: times for (case, clock), times in self.rounds.items() if clock == rows[0].clock}
        return fastest_of(self.info, rows, rounds)


def read_stored(folder: Path) -> ReportedRun:
    """Reads a run's folder; raises UsageError for a step, RunFormatError, naming the file, for an unreadable run."""
    info, rows = read_run(folder)
    compared = any(row.versus for row in rows)
    kernel_times = [row if compared else replace(row, versus=None) for row in read_clocks(folder).get("cupti", ())]
    rounds = read_case_rounds(folder) if is_stored(folder / ROUNDS) else {}
    sweep = read_sweep(folder)
    if sweep:
        from gdnbench.verbs.sweep import check_points

        check_points(folder, sweep, rows)
    return ReportedRun(
        folder=folder,
        info=info,
        rows=tuple(rows),
        kernel_times={row.case.id: row for row in kernel_times if row.timing},
        rounds=rounds,
        sweep=sweep,
    )


def lead_line(stored: ReportedRun) -> str:
    """Returns what was measured, where, on whose card and host, and how."""
    info, settings = stored.info, stored.info.settings
    timer = "warm calls on the CPU"
    if info.on_gpu:
        timer = f"NVBench{' and CUPTI' if stored.kernel_times else ''}, cold L2"
    place = f" ({info.place})" if info.place else ""
    most = "up to " if settings.get("until_clear") else ""
    rounds = f"{most}{settings['rounds']} rounds of up to {settings['samples']} samples"
    further = ", more for the points in front" if stored.sweep else ""
    return f"{info.op} on {info.device}{place}: {_counts(stored)}, {timer}, {rounds}{further}"


def _counts(stored: ReportedRun) -> str:
    if stored.sweep:
        return plural(len(stored.sweep.points), "point")
    floors = {row.case.label: row.role is Role.FLOOR for row in timed(stored.rows)}
    counts = ((len(floors) - sum(floors.values()), "kernel"), (sum(floors.values()), "floor"))
    return " and ".join(plural(count, name) for count, name in counts if count) or "nothing timed"


R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class HtmlCell:
    """One cell of a table.

    `aside` is smaller text behind it, the half width of an interval. Rows sort by `sort`, None last in either
    direction. `mark`, a verdict or status that `text` says, too, sets the style; `link` is an id on the page.
    """

    text: str
    aside: str = ""
    sort: float | str | None = None
    mark: str = ""
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class HtmlTable:
    """A table that readers can sort: each row has its cells, and its kind: `floor`, `baseline` or empty."""

    id: str
    caption: str
    columns: Sequence[Column[Any]]
    rows: Sequence[tuple[str, Sequence[HtmlCell]]]


def html_table(
    table: Table[R], name: str, caption: str, kind: Callable[[R], str] = lambda _row: "", *, filled: bool = False
) -> HtmlTable:
    """Makes the page's table `name`; `kind` tells floors and the baseline, `filled` leaves empty columns out."""
    columns = [(column, [_cell(column, row) for row in table.rows]) for column in table.columns if column.heading]
    if filled and table.rows:
        columns = [(column, cells) for column, cells in columns if any(cell.text for cell in cells)]
    rows = [(kind(row), [cells[place] for _, cells in columns]) for place, row in enumerate(table.rows)]
    return HtmlTable(id=name, caption=caption, columns=[column for column, _ in columns], rows=rows)


def _cell(column: Column[Any], row: Any) -> HtmlCell:
    value = column.value(row)
    if isinstance(value, HtmlCell):
        return value
    text = column.cell(row).plain
    if isinstance(value, Enum):
        word = str(value.value)
        mark = "role" if isinstance(value, Role) else word
        return HtmlCell(text=f"{GLYPHS.get(word, '')} {text}".strip(), sort=word, mark=mark)
    if is_interval(value):
        aside = half_text(value.relative_half_width)
        return HtmlCell(text=text.removesuffix(f" {aside}"), aside=aside, sort=_finite(value.estimate))
    if isinstance(value, int | float):
        return HtmlCell(text=text, sort=_finite(value) if text else None)
    return HtmlCell(text=text, sort=text or None)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, kw_only=True)
class HtmlChart:
    """A chart of Vega-Lite, `height` pixels high; `picker` is the id of the list of kernels that it follows."""

    id: str
    title: str
    spec: dict[str, Any]
    height: int
    note: str = ""
    picker: str = ""


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Cases that were not measured for the same reason."""

    status: str
    grave: bool
    labels: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class HtmlPart:
    """A workload of a run, or a plateau of a sweep, by its heading's `id`; `folded` names the fold of its table."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    charts: tuple[HtmlChart, ...] = ()
    table: HtmlTable | None = None
    folded: str = ""
    failures: tuple[FailureGroup, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HtmlSection:
    """One run or one sweep.

    `id` is its heading's; `badge` is a word beside the heading, `partial`. `choices` has the kernels to pick from,
    empty without charts that follow them. `charts`, and `lines` above them, are across all `parts`; `failures` were not
    measured at any workload.
    """

    id: str
    title: str
    lead: str = ""
    badge: str = ""
    warnings: tuple[str, ...] = ()
    choices: tuple[KernelChoice, ...] = ()
    charts: tuple[HtmlChart, ...] = ()
    lines: tuple[str, ...] = ()
    parts: tuple[HtmlPart, ...] = ()
    failures: tuple[FailureGroup, ...] = ()

    @property
    def all_charts(self) -> list[HtmlChart]:
        """Its charts and those of its parts, in order."""
        return [*self.charts, *(chart for part in self.parts for chart in part.charts)]


def failures_of(rows: Sequence[Measurement], *, workloads: bool = False) -> tuple[FailureGroup, ...]:
    """Groups cases without a time by status and reason."""
    grouped: dict[tuple[Status, str], list[str]] = {}
    for row in rows:
        if row.status is not Status.OK and row.role is not Role.CONTROL:
            where = f" {row.case.workload}" if workloads else ""
            grouped.setdefault((row.status, row.reason), []).append(f"{row.case.label}{where}")
    return tuple(
        FailureGroup(status=status.value, grave=status.is_failure, labels=", ".join(labels), reason=reason.strip())
        for (status, reason), labels in grouped.items()
    )


def control_cell(rows: Sequence[Measurement]) -> HtmlCell:
    """Makes a cell of a workload's A/A comparison; the verdict is shown only if it is not SAME."""
    versus = next((row.versus for row in rows if row.role is Role.CONTROL and row.versus), None)
    if versus is None:
        return HtmlCell(text="")
    verdict = "" if versus.verdict == "same" else versus.verdict
    text = f"{factor(versus.speedup)} {GLYPHS.get(verdict, '')} {verdict.upper()}".strip()
    return HtmlCell(
        text=text,
        aside=half_text(relative_half_width(versus.speedup, versus.low, versus.high)),
        sort=versus.speedup,
        mark=verdict,
    )
