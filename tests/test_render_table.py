"""One description of a table, in every form that it is printed in."""

import csv
import io
import json
from dataclasses import dataclass

import pytest

from gdnbench.model.status import Status
from gdnbench.render import codec
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Column, Note, Table, command
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
    cell = codec.cell(key, value)
    assert (cell.plain, str(cell.style)) == (text, style)
