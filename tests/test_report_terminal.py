"""The course of a value in the terminal: within the console, every value drawn, and no more lost than the chart."""

import io
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.console import Console

from gdnbench.errors import LeftOutWarning
from gdnbench.render.terminal_chart import REQUIREMENT, print_course, round_ticks


def drawn(values, width=80, steps=()):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    print_course(console, "ratio", values, [f"{place:04}" for place in range(len(values))], steps)
    return console.file.getvalue()


def canvas(text):
    """What stands inside the frame, a string for each row."""
    return [row[1] for row in re.finditer(r"^.*?[│┤](.*)[│├]", text, re.MULTILINE)]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(min_value=0.5, max_value=500.0), min_size=2, max_size=9), st.integers(min_value=40, max_value=99)
)
def test_whatever_the_values_each_has_a_point_in_a_column_of_its_own(values, width):
    text = drawn(values, width)
    columns = {row.index("●") for row in canvas(text) if "●" in row} | {
        row.rindex("●") for row in canvas(text) if "●" in row
    }
    assert sum(row.count("●") for row in canvas(text)) == len(values)
    assert len(columns) > 1
    assert max(map(len, text.splitlines())) <= width


def test_a_step_is_an_upright_line_before_its_place():
    rows = canvas(drawn([1.0, 1.0, 2.0, 2.0], steps=[2]))
    assert sum(row.count("│") for row in canvas(drawn([1.0, 1.0, 2.0, 2.0]))) == 0
    assert sum("│" in row for row in rows) >= len(rows) - 2


def module(version="6.1.0", **parts):
    made = ModuleType("plotext")
    made.__version__ = version
    vars(made).update(parts)
    return made


def fail(*_args, **_named):
    raise RuntimeError("the kernel\nis broken")


FAULTS = {
    "missing": (None, "ModuleNotFoundError"),
    "another major version": (module("5.3.2"), "AttributeError"),
    "failing": (module(terminal=SimpleNamespace(limit=fail)), "RuntimeError: the kernel is broken"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_where_plotext_fails_a_warning_says_what_it_needs_and_nothing_is_printed(monkeypatch, fault):
    plotext, told = FAULTS[fault]
    monkeypatch.setitem(sys.modules, "plotext", plotext)
    with pytest.warns(LeftOutWarning, match=f"{told}.*plotext>=") as caught:
        assert drawn([1.0, 2.0, 3.0]) == ""
    assert "\n" not in str(caught[0].message)


def test_the_warning_asks_for_the_plotext_that_is_installed_with_gdnbench():
    project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert REQUIREMENT in project["project"]["dependencies"]


@given(
    st.floats(min_value=-1e6, max_value=1e6),
    st.floats(min_value=1e-6, max_value=1e6),
    st.integers(min_value=2, max_value=9),
)
def test_ticks_are_round_within_the_range_and_no_more_than_asked_for(low, width, most):
    assume(width > 1e-8 * abs(low))
    high = low + width
    ticks = round_ticks(low, high, most)
    assert 1 <= len(ticks) <= most
    assert all(low - 1e-6 * width <= tick <= high + 1e-6 * width for tick in ticks)
    assert len(set(ticks.values())) == len(ticks)
    assert all(float(name) == tick for tick, name in ticks.items())
