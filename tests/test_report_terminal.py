"""Charts in the terminal: every line told apart, within the console, and no more lost than the chart when they fail."""

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

from gdnbench.errors import ChartError, ExitCode, UsageError
from gdnbench.render.terminal_chart import REQUIREMENT, OptionalCharts, TerminalChart, letters, round_ticks

LETTERS = letters(52)
SIZES = (1, 8, 64)


def shown(lines, width=80, colour=None, sizes=SIZES, height=20):
    """A chart of lines given as name and values at the sizes."""
    console = Console(width=width, file=io.StringIO(), color_system=colour, force_terminal=bool(colour))
    with TerminalChart(console, "times", height) as chart:
        for name, values in lines.items():
            known = {float(size): value for size, value in zip(sizes, values, strict=True) if value is not None}
            chart.line(known, name=name, values={size: f"{value:.3f}" for size, value in known.items()})
        chart.x_axis({float(size): str(size) for size in sizes}, name="B")
    return console.file.getvalue()


def canvas(text):
    """What stands inside the frame, a string for each row."""
    return [row[1] for row in re.finditer(r"^.*?[│┤](.*)[│├]", text, re.MULTILINE)]


def legend(text):
    """Letter, name and values of each line of the legend."""
    return [line.split() for line in text.partition("\n B\n")[2].splitlines() or text.splitlines()
            if re.match(r"[a-zA-Z]  \S", line)]  # fmt: skip


TIMES = {
    "decode-v5": (4.597, 6.573, 23.140), "decode-v5i": (4.598, 6.580, 23.120), "decode-v6": (4.392, 6.248, 22.303),
    "decode-v1c": (4.790, 6.630, 22.042), "decode-fla": (5.038, 7.042, 21.349), "decode-triton": (4.348, 6.305, 21.272),
    "decode-floor-copy": (3.986, 6.020, 20.554), "decode-floor-empty": (2.740, 3.241, 7.556),
}  # fmt: skip


def test_the_legend_has_every_line_with_a_letter_of_its_own_and_its_values():
    rows = legend(shown(TIMES))
    assert [row[0] for row in rows] == list("abcdefgh")
    assert [row[1] for row in rows] == list(TIMES)
    assert [tuple(map(float, row[2:])) for row in rows] == list(TIMES.values())


def test_points_at_one_x_are_each_drawn_and_the_legend_has_columns_of_its_own():
    console = Console(width=60, file=io.StringIO(), color_system=None)
    with TerminalChart(console, "rates", 12) as chart:
        chart.scatter([(1.0, 1.0), (1.0, 5.0)], name="one", values={0: "1.0", 1: "5.0"})
        chart.scatter([(1.0, 5.0), (3.0, 3.0)], name="other", values={0: "5.0", 1: "3.0"})
        chart.x_axis({1.0: "1", 3.0: "3"}, "x", {0: "B=1", 1: "B=8"})
    text = console.file.getvalue()
    assert sorted("".join(canvas(text)).split()) == ["2", "a", "b"]
    assert [re.sub(" +", " ", line).strip() for line in text.splitlines()[-4:-1]] == [
        "B=1 B=8", "a one 1.0 5.0", "b other 5.0 3.0",
    ]  # fmt: skip
    assert "that many of these have a point there" in text


times = st.floats(min_value=0.5, max_value=500.0, allow_nan=False)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(times, times, times), min_size=2, max_size=9), st.integers(min_value=40, max_value=100))
def test_whatever_the_times_each_column_accounts_for_every_line(values, width):
    text = shown({f"kernel-{place}": each for place, each in enumerate(values)}, width)
    rows = canvas(text)
    assert len(rows[0]) >= 3
    columns = [[row[column] for row in rows] for column in range(len(rows[0]))]
    marked = [[mark for mark in column if mark in LETTERS or mark.isdigit()] for column in columns]
    counted = [sum(int(mark) if mark.isdigit() else 1 for mark in column) for column in marked]
    assert [count for count in counted if count] == [len(values)] * 3
    assert max(map(len, text.splitlines())) <= width


def test_the_legend_shows_the_first_and_the_last_size_where_not_all_fit():
    sizes = (1, 2, 4, 8, 16, 32, 48, 64, 128, 256)
    lines = {f"decode-triton:BV={2**n}:WARPS={n}": [float(size + n) for size in sizes] for n in range(3)}
    for width in (80, 60, 40):
        text = shown(lines, width, sizes=sizes)
        heading = next(line for line in text.splitlines() if "B=256" in line)
        assert heading.split()[0] == ("B=1" if width > 40 else "B=256")
        assert all(name in text for name in lines)
        assert max(map(len, text.splitlines())) <= width


def test_more_lines_than_letters_are_refused():
    assert len(legend(shown({f"k{place}": (place, place, place) for place in range(52)}))) == 52
    with pytest.raises(UsageError, match="53 lines") as caught:
        shown({f"k{place}": (1, 2, 3) for place in range(53)})
    assert "--kernel" in caught.value.hint


def broken(version="6.1.0"):
    module = ModuleType("plotext")
    module.__version__ = version
    return module


def failing():
    def fail(*_args, **_named):
        raise RuntimeError("the kernel\nis broken")

    module = broken()
    module.terminal = SimpleNamespace(limit=fail)
    return module


FAULTS = {
    "missing": (None, "ModuleNotFoundError"),
    "another major version": (broken("5.3.2"), r"plotext 5\.3\.2 .*AttributeError"),
    "failing": (failing(), "RuntimeError: the kernel is broken"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_where_plotext_fails_the_chart_is_an_error_with_a_hint_and_nothing_is_printed(monkeypatch, fault):
    module, told = FAULTS[fault]
    monkeypatch.setitem(sys.modules, "plotext", module)
    console = Console(file=io.StringIO())
    with pytest.raises(ChartError, match=told) as caught, TerminalChart(console, "times") as chart:
        chart.line({0.0: 1.0, 1.0: 2.0}, name="x")
    assert console.file.getvalue() == ""
    assert "\n" not in caught.value.message
    assert REQUIREMENT in caught.value.hint
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


def test_charts_beside_a_table_cost_one_line_on_stderr_however_many_fail(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "plotext", failing())
    charts, console = OptionalCharts(), Console(file=io.StringIO())
    for _ in range(3):
        with charts, TerminalChart(console, "times") as chart:
            chart.line({0.0: 1.0, 1.0: 2.0}, name="x")
    out, err = capsys.readouterr()
    assert (out, console.file.getvalue()) == ("", "")
    assert err == "warning: plotext 6.1.0 cannot draw the chart: RuntimeError: the kernel is broken\n"


def test_the_hint_asks_for_the_plotext_that_is_installed_with_gdnbench():
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
