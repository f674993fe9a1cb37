"""One description of a table, in every form that it is printed in, and the units of its columns."""

import csv
import io
import json
import math
from dataclasses import dataclass

import pytest

from gdnbench.errors import UnknownNameError
from gdnbench.model.status import Status
from gdnbench.render import units
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Column, Note, Table, command, plain_rows
from gdnbench.render.units import MICROSECONDS, MILLISECONDS, half_text, plus_minus, tflops_text, time_unit
from gdnbench.render.view import TableView, viewed
from gdnbench.stats.interval import Interval, Verdict


@dataclass
class Row:
    name: str
    time: Interval | None = None
    verdict: Verdict | None = None
    status: Status = Status.OK


ROWS = [
    Row("decode-fla", Interval(4.5, 4.4, 4.6), Verdict.SLOWER),
    Row("decode-very-long-name-of-a-kernel", None, None, Status.CRASHED),
]
COLUMNS: list[Column[Row]] = [
    Column("label", lambda row: row.name, "kernel", fold=True),
    Column("time_us time_lo_us time_hi_us", lambda row: row.time, "time µs", right=True),
    Column("verdict", lambda row: row.verdict, "verdict", drop=1),
    Column("status", lambda row: row.status, "status", drop=2),
    Column("*", lambda row: {"B": 1, "letters": len(row.name)}),
    Column("formula", lambda _: "=1+1", only="csv"),
    Column("more", lambda row: {"of": row.name}, only="json"),
    Column("", lambda row: row.name.upper(), "for people"),
]
NOTES = [Note("a slow host", "warning"), Note("time: a median", "legend")]
ANSWER = Answer([Table(COLUMNS, ROWS, "kernels", NOTES, {"op": "decode"}, "rows")], next=command("list", "decode-fla"))
KEYS = ["label", "time_us", "time_lo_us", "time_hi_us", "verdict", "status", "B", "letters"]


@pytest.fixture
def printed(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def call(answer=ANSWER, width=120, **form):
        monkeypatch.setenv("COLUMNS", str(width))
        print_answer(answer, **form)
        return capsys.readouterr().out

    return call


def test_json_has_every_key_exact_values_and_what_stands_beside_the_rows(printed):
    document = json.loads(printed(json=True))
    first, second = document["rows"]
    assert document["op"] == "decode"
    assert list(first) == [*KEYS, "more"]
    assert (first["time_us"], first["time_lo_us"], first["verdict"], first["more"]) == (
        4.5, 4.4, "slower", {"of": "decode-fla"},
    )  # fmt: skip
    assert (second["time_us"], second["time_hi_us"], second["verdict"], second["status"]) == (
        None, None, None, "crashed",
    )  # fmt: skip


def test_csv_has_the_same_keys_and_no_formula(printed):
    rows = list(csv.DictReader(io.StringIO(printed(csv=True))))
    assert list(rows[0]) == [*KEYS, "formula"]
    assert (rows[0]["time_lo_us"], rows[1]["time_us"], rows[0]["formula"]) == ("4.4", "", "'=1+1")


def test_people_see_headings_notes_and_the_next_command(printed):
    lines = [line.rstrip() for line in printed().splitlines()]
    assert lines[0] == "kernels"
    assert lines[1].split() == ["kernel", "time", "µs", "verdict", "status", "for", "people"]
    assert lines[2].split() == ["decode-fla", "4.500", "±2.22%", "SLOWER", "DECODE-FLA"]
    assert lines[3].split()[1] == "crashed"
    assert lines[4:] == ["warning: a slow host", "time: a median", "next: gdnbench list decode-fla"]


@pytest.mark.parametrize(("width", "gone"), [(100, ""), (80, "status"), (70, "status, verdict")])
def test_the_column_of_the_highest_drop_goes_first_and_is_named(printed, width, gone):
    text = printed(width=width)
    assert max(map(len, text.splitlines())) <= width
    assert [line for line in text.splitlines() if "no room" in line] == [f"no room here for {gone}"] * bool(gone)


@pytest.mark.parametrize(
    ("key", "value", "text", "style"),
    [
        ("time_us", 131.23, "131.2", ""),
        ("ratio", 1.0625, "1.062x", ""),
        ("ratio", Interval(1.0625, 1.05, 1.075), "1.062x ±1.18%", ""),
        ("ratio", float("nan"), "", ""),
        ("verdict", Verdict.FASTER, "FASTER", "bold green"),
        ("status", Status.MISSING, "missing", "yellow"),
        ("status", Status.WRONG_NUMBERS, "wrong-numbers", "red"),
        ("status", Status.OK, "", ""),
        ("count", 3, "3", ""),
        ("count", None, "", ""),
    ],
)
def test_a_value_is_written_the_same_in_every_table(key, value, text, style):
    cell = units.cell(key, value)
    assert (cell.plain, str(cell.style)) == (text, style)


TIMES = Answer(
    [
        Table(
            [
                Column("label", lambda row: row[0], "kernel"),
                Column("time_us", lambda row: row[1], "time µs"),
                Column("", lambda row: row[2], "vs fla"),
            ],
            [("b", 10.0, "1.20x ±9%"), ("c", float("nan"), ""), ("a", 9.0, "12%"), ("2026-1", 1e3, "1,200x")],
            notes=[Note("time: a mean", "meaning")],
        )
    ]
)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", "b c a 2026-1"),
        ("time", "a b 2026-1 c"),  # the first that begins so; what is unknown comes last, whichever way
        ("-time us", "2026-1 b a c"),
        ("vs FLA", "b a 2026-1 c"),
        ("kernel", "2026-1 a b c"),
        ("-kernel", "c b a 2026-1"),
    ],
)
def test_rows_are_sorted_by_what_a_column_holds(printed, sort, order):
    with viewed(TableView(sort=sort)):
        assert [line.split()[0] for line in printed(TIMES).splitlines()[1:5]] == order.split()


@pytest.mark.parametrize(
    ("view", "form", "lines"),
    [
        (TableView(columns=("vs fla", "kernel")), {}, ["vs fla     kernel", "1.20x ±9%  b"]),
        (TableView(columns=("time_us", "label"), sort="-label"), {"csv": True}, ["time_us,label", "nan,c"]),
        (TableView(columns=("kernel",), markdown=True), {}, ["| kernel |", "| :-- |"]),
        (TableView(legend=True, columns=("kernel",)), {}, ["kernel", "b", "c", "a", "2026-1", "time: a mean"]),
    ],
)
def test_a_view_chooses_columns_in_its_order_in_every_form(printed, view, form, lines):
    with viewed(view):
        found = [line.rstrip() for line in printed(TIMES, **form).splitlines()]
    assert found[: len(lines)] == lines
    assert any("time: a mean" in line for line in found) == (view.legend or view.markdown)


@pytest.mark.parametrize(("form", "known"), [({}, "kernel, time µs, vs fla"), ({"csv": True}, "label, time_us")])
@pytest.mark.parametrize("view", [TableView(sort="-bandwidth"), TableView(columns=("kernel", "bandwidth"))])
def test_a_column_that_no_table_has_is_refused_with_those_that_there_are(printed, view, form, known):
    with viewed(view), pytest.raises(UnknownNameError) as refused:
        printed(TIMES, **form)
    assert refused.value.hint == f"the columns are {known}"


def test_a_table_without_the_column_goes_with_its_title_and_unheaded_ones_stay(printed):
    answer = Answer(text=lambda _: [*ANSWER.tables, plain_rows([("as", "it is")]), *TIMES.tables])
    with viewed(TableView(columns=("vs fla",))):
        lines = [line.strip() for line in printed(answer).splitlines()]
    assert lines[:4] == ["warning: a slow host", "time: a median", "as  it is", "vs fla"]


@pytest.mark.parametrize(
    ("times_us", "unit"),
    [
        ((), MICROSECONDS),
        ((math.nan,), MICROSECONDS),
        ((4.5, 12_000.0), MICROSECONDS),
        ((9_999.9, 12_000.0), MICROSECONDS),
        ((10_000.0, 12_000.0), MILLISECONDS),
        ((math.nan, 10_000.0), MILLISECONDS),
    ],
)
def test_a_column_is_in_milliseconds_where_all_of_its_known_times_are_long(times_us, unit):
    assert time_unit(times_us) == unit


@pytest.mark.parametrize(
    ("tflops", "text"), [(0.5178, "0.52"), (41.26, "41.3"), (811.7, "812"), (1234.0, "1234"), (math.nan, "")]
)
def test_a_rate_has_three_digits(tflops, text):
    assert tflops_text(tflops) == text


@pytest.mark.parametrize(
    ("half", "told"),
    [
        (0.0, "±0.00%"),
        (0.0027, "±0.27%"),
        (1.3, "±130%"),
        (9.0, "±900%"),
        (9.01, "±>900%"),
        (1e200, "±>900%"),
        (math.inf, ""),
        (math.nan, ""),
    ],
)
def test_half_of_an_interval_has_digits_where_they_tell_something(half, told):
    assert half_text(half) == told
    assert plus_minus(half) == (f" {told}" if told else "")
