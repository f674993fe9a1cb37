"""A page as one HTML file: templates, style, scripts and charts in it, nothing outside it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from gdnbench.finite import finite
from gdnbench.report.html.content import Page

VEGA_LITE = "6.4"
SCRIPTS = ("charts.js", "pickers.js", "tables.js")
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_OPENING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(page: Page) -> str:
    """The file's text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("gdnbench.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        page=page,
        style=Markup(_asset("report.css")),
        scripts=[Markup(text) for text in (_vega() if page.charts else "", *map(_asset, SCRIPTS)) if text],
        specs={chart.id: Markup(inline_json(chart.spec)) for chart in page.charts},
    )


def inline_json(document: Any) -> str:
    """JSON that can stand inside a script element, whatever its texts say."""
    text = json.dumps(finite(document), ensure_ascii=False, separators=(",", ":"))
    for character, escaped in _OPENING.items():
        text = text.replace(character, escaped)
    return text


@cache
def _vega() -> str:
    """The library that draws, as a script; it takes a second to bundle."""
    import vl_convert

    text = str(vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE))
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return (files("gdnbench.report.html") / "assets" / name).read_text(encoding="utf-8")
