"""The report as one HTML file: the choice of runs, rendering, and the message about the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gdnbench.codec import finite
from gdnbench.compare.figure import FigureSource
from gdnbench.errors import MachineError, UsageError
from gdnbench.report.charts.theme import DARK, LIGHT, VEGA_LITE, unchecked
from gdnbench.report.console import data_console, message_console
from gdnbench.report.html.content import HtmlPage
from gdnbench.report.output_file import check_output_file, write_output_file
from gdnbench.store.find import PUBLISHED_FOLDER, compares, find_run

if TYPE_CHECKING:
    from jinja2 import Environment

NEEDED = ("jinja2", "altair", "vl_convert")
SUFFIXES = (".html", ".htm")


@dataclass(frozen=True)
class WrittenReport:
    """A report on disk; `warnings` names profiles that could not be read, and are not in it."""

    path: Path
    size_bytes: int
    warnings: tuple[str, ...] = ()


def check_output(path: Path) -> None:
    """Refuses an unwritable report before anything is read for it.

    Raises UsageError for a wrong suffix, a missing folder, or anything but a regular file; MachineError for a folder or
    file that cannot be written, or without the drawing libraries.
    """
    check_output_file(path, "--output", SUFFIXES, "report.html")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MachineError(f"a report needs {', '.join(missing)}", "pip install 'gdnbench[report]'")


def write_report(runs: Sequence[Path], published: Sequence[Path], output: Path, *, profiles: Path) -> WrittenReport:
    """Writes runs, in the order wanted, and published figures as a report in one step; replaces an existing file.

    Raises RunFormatError, naming the unreadable file, or MachineError if `output` cannot be written; it is then
    unchanged.
    """
    from gdnbench.report.html.counters import find_profiled
    from gdnbench.report.html.page import page_of
    from gdnbench.report.html.stored import read_stored

    stored = [read_stored(folder) for folder in runs]
    figures = [load_figures(folder) for folder in published]
    profiled = find_profiled(profiles, stored)
    with unchecked():
        page = page_of(stored, figures, profiled)
    text = render(page).encode()
    write_output_file(output, text)
    return WrittenReport(output, len(text), tuple(profiled.warnings))


def find_figures(results: Path, wanted: str) -> Path | None:
    """Returns the folder of published figures that `published/<name>` or a path names, or None for any other name.

    Raises UnknownNameError if there are no such figures.
    """
    from gdnbench.compare.foreign import PUBLISHED_NAME, find_published

    if wanted and (Path(wanted) / PUBLISHED_NAME).is_file():
        return Path(wanted)
    return find_published(results, wanted) if wanted.startswith(f"{PUBLISHED_FOLDER}/") else None


def load_figures(folder: Path) -> FigureSource:
    """Reads published figures; raises RunFormatError if they cannot be read."""
    from gdnbench.compare.foreign import load_published

    return load_published(folder)


def choose_sources(results: Path, wanted: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Returns the named folders of runs and of published figures, each once.

    If none is named, takes the latest run that compared kernels. Raises UnknownNameError for an unknown run, UsageError
    if only published figures are named.
    """
    published = {name: folder for name in wanted if (folder := find_figures(results, name))}
    runs = [find_run(results, name) for name in wanted if name not in published]
    if published and not runs:
        raise UsageError(
            "a report needs a run beside what was published", f"gdnbench report h200 {next(iter(published))}"
        )
    unique = {folder.resolve(): folder for folder in runs or [find_run(results, serves=compares)]}
    return list(unique.values()), list(published.values())


def print_written(written: WrittenReport) -> None:
    """Prints the file, its size, and how to open it; and warnings on profiles left out."""
    for warning in written.warnings:
        message_console().print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    console = data_console()
    console.print(Text(f"{written.path}  ({written.size_bytes / 1e6:.2f} MB)"), soft_wrap=True)
    console.print(Text(f"next: python3 -m webbrowser {written.path.absolute().as_uri()}"), soft_wrap=True)


SCRIPTS = ("charts.js", "pickers.js", "tables.js")
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_OPENING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(page: HtmlPage) -> str:
    """Renders the file's text."""
    from markupsafe import Markup

    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        style=Markup(_colours() + _asset("report.css")),
        scripts=[Markup(text) for text in (_vega() if page.charts else "", *map(_asset, SCRIPTS)) if text],
        specs={chart.id: Markup(inline_json(chart.spec)) for chart in page.charts},
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("gdnbench.report.html"),
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


def _colours() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {DARK.css} }} }}"
    return f":root {{ {LIGHT.css} }}\n{dark}\n"


def _asset(name: str) -> str:
    return (files("gdnbench.report.html") / "assets" / name).read_text(encoding="utf-8")
