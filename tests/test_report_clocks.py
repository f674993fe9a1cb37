"""Several clocks of one run: the gap between them, its split, and every view of a run that has them."""

import json
import math
import re
from dataclasses import replace

import pytest
from clocks_data import LABELS, RUN_ID, rows_of, store_clocks, time_us, without_time
from decode_workloads import decode_at

from gdnbench.analyse.runs import load_run
from gdnbench.model.status import Role, Status
from gdnbench.report.run.clocks import contradictions, gaps_of
from gdnbench.store.measurements import read_clocks, read_measurements

B1 = decode_at(B=1)
CLOCKS = {"cupti": rows_of("cupti"), "graph": rows_of("graph")}
WITHOUT_EMPTY = tuple(label for label in LABELS if label != "decode-floor-empty")


def case_id(label, workload=B1):
    return next(row.case.id for row in rows_of("nvbench") if (row.case.label, row.case.workload) == (label, workload))


@pytest.mark.parametrize("workload", [B1, decode_at(B=8)])
def test_the_gap_is_split_by_the_empty_floors_own(workload):
    gap = gaps_of(rows_of("nvbench"), CLOCKS)[case_id("decode-v4", workload)]
    empty = time_us("nvbench", "decode-floor-empty", workload) - time_us("cupti", "decode-floor-empty", workload)
    assert gap.gap_us == pytest.approx(4.60 - 2.336)
    assert gap.launch_us == pytest.approx(empty)
    assert gap.rest_us == pytest.approx(gap.gap_us - empty)


def test_the_empty_floors_gap_is_all_launch():
    assert gaps_of(rows_of("nvbench"), CLOCKS)[case_id("decode-floor-empty")].rest_us == 0


def test_without_the_empty_floor_the_gap_is_not_split():
    gap = gaps_of(rows_of("nvbench", WITHOUT_EMPTY), {"cupti": rows_of("cupti", WITHOUT_EMPTY)})[case_id("decode-v4")]
    assert gap.gap_us == pytest.approx(4.60 - 2.336)
    assert math.isnan(gap.launch_us)
    assert gap.cells()["rest_us"] is None


def test_an_empty_floor_that_cupti_has_no_time_of_splits_nothing():
    rows = [without_time(row) if row.case.label == "decode-floor-empty" else row for row in rows_of("cupti")]
    gaps = gaps_of(rows_of("nvbench"), {"cupti": rows})
    assert case_id("decode-floor-empty") not in gaps
    assert math.isnan(gaps[case_id("decode-v4")].launch_us)


def test_a_copying_floor_is_not_taken_for_the_empty_one():
    labels = ("decode-fla", "decode-floor-copy", "decode-v4")
    assert math.isnan(
        gaps_of(rows_of("nvbench", labels), {"cupti": rows_of("cupti", labels)})[case_id("decode-v4")].launch_us
    )


def test_without_cupti_there_is_no_gap():
    assert gaps_of(rows_of("nvbench"), {"graph": rows_of("graph")}) == {}


def test_clocks_that_contradict_each_other_are_named():
    rows = [
        replace(row, versus=replace(row.versus, speedup=0.97, verdict="slower"))
        if row.case.label == "decode-v4" and row.case.workload == B1
        else row
        for row in rows_of("cupti")
    ]
    ((own, other),) = contradictions(rows_of("nvbench"), {"cupti": rows})
    assert (own.clock, other.clock, own.case.id) == (None, "cupti", other.case.id)
    assert contradictions(rows_of("nvbench"), CLOCKS) == []


@pytest.fixture
def shown(tmp_path, command_line):
    """Stores a run and shows it; gives stdout."""

    def show(*arguments, columns="80", **stored):
        store_clocks(tmp_path, **stored)
        code, out, _ = command_line("show", "--out", tmp_path, *arguments, columns=columns)
        assert code == 0
        return out

    return show


def test_a_clock_without_any_time_still_says_why(shown):
    rows = [*rows_of("nvbench"), *(without_time(row, reason="CUPTI records nothing here") for row in rows_of("cupti"))]
    out = shown(rows=rows, clocks=("cupti",))
    assert "CUPTI records nothing here" in out
    assert "gap" not in out.split("±: 95%")[0]


def test_warnings_of_a_clock_say_of_which(shown):
    rows = [replace(row, warnings=("3 of 41 rounds below 97%",)) if row.clock == "graph" else row
            for row in (*rows_of("nvbench"), *rows_of("graph"))]  # fmt: skip
    assert "  decode-v4 by graph: 3 of 41 rounds below 97%" in shown(rows=rows, clocks=("graph",))


def test_long_tails_by_a_clock_are_one_line(shown):
    tail = "mean 1.909 µs, 90th percentile 2.017 µs: a long tail"
    rows = [*rows_of("nvbench"), *(replace(row, warnings=("interval of ±4.0%", tail)) for row in rows_of("graph"))]
    out = " ".join(shown(rows=rows, clocks=("graph",)).split())
    assert "decode-v4 by graph: interval of ±4.0% decode" in out
    assert out.count("a long tail by graph, mean over 1% above: ") == 2  # of each workload
    assert "mean 1.909" not in out


def test_a_source_of_figures_has_nvbench_alone(tmp_path):
    source = load_run(store_clocks(tmp_path))
    assert {figure.timer for figure in source.figures} == {"nvbench"}
    assert len(source.figures) == 2 * len(LABELS)
    for figure in source.figures:
        assert figure.rounds_us.mean() == pytest.approx(time_us("nvbench", figure.label, figure.workload), rel=0.002)


def test_compare_does_not_mix_clocks(tmp_path, command_line):
    """The same run with and without further clocks is the same, to the digit."""
    store_clocks(tmp_path)
    store_clocks(tmp_path, rows=rows_of("nvbench"), clocks=(), run_id="20260103-030405-h200-decode-alone")
    code, out, _ = command_line("compare", "clocks", "alone", "--out", tmp_path, "--json")
    assert code == 0
    assert "cupti" not in out
    for case in json.loads(out)["cases"]:
        assert case["judged_by"] == "stream"
        assert (case["ratio"], case["time_a_us"]) == (1.0, case["time_b_us"])
        assert case["kernel_b_us"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", RUN_ID, "--cols", "label"),
        ("show", RUN_ID, "--chart", "samples"),
        ("show", RUN_ID, "--chart", "rounds"),
    ],
    ids=lambda arguments: "-".join(arguments[:1] + arguments[2:3]),
)
def test_every_view_of_a_run_with_three_clocks_is_that_of_nvbench_alone(tmp_path, command_line, arguments):
    seen = []
    for name, rows in (("three", None), ("alone", rows_of("nvbench"))):
        store_clocks(tmp_path / name, rows=rows)
        code, out, err = command_line(*arguments, "--out", tmp_path / name)
        assert code == 0, err
        seen.append(out.replace(f"/{name}", ""))
    assert seen[0] == seen[1]
    assert "decode-v4" in seen[0]


def test_history_has_kernel_times_and_no_stream_times(tmp_path, command_line):
    store_clocks(tmp_path)
    out = command_line("history", "decode-v4", "--shape", "B=1", "--out", tmp_path)[1]
    assert " 2.336 " in out
    assert "4.600" not in out
    (row,) = json.loads(command_line("history", "decode-v4", "--shape", "B=1", "--out", tmp_path, "--json")[1])[
        "histories"
    ][0]["rows"]
    assert (row["time_us"], row["kernel_us"]) == (4.6, 2.336)


@pytest.mark.parametrize("chart", ["time", "sol"])
def test_charts_of_times_and_shares_are_of_kernel_times(tmp_path, command_line, chart):
    store_clocks(tmp_path)
    out = command_line("show", RUN_ID, "--chart", chart, "--out", tmp_path)[1]
    assert "kernel time" in out
    assert "2.336" in out
    assert "4.600" not in out


def test_a_report_of_a_run_with_three_clocks_has_kernel_times_first(tmp_path, command_line):
    store_clocks(tmp_path)
    code, _, err = command_line("report", RUN_ID, "--output", tmp_path / "r.html", "--out", tmp_path)
    assert code == 0, err
    page = (tmp_path / "r.html").read_text()
    assert re.search(r"decode-v4</th>\s*<td[^>]*>2.336.*?<td[^>]*>4.600.*?<td[^>]*>74.0%", page, re.DOTALL)
    assert "kernel time, µs (log)" in page


def test_a_row_of_a_clock_without_a_time_comes_back(tmp_path):
    rows = [*rows_of("nvbench"), *(without_time(row, Status.CRASHED) for row in rows_of("graph"))]
    folder = store_clocks(tmp_path, rows=rows, clocks=("graph",))
    assert [row.role for row in read_measurements(folder)].count(Role.CONTROL) == 2
    (found,) = read_clocks(folder).values()
    assert found == [row for row in rows if row.clock == "graph"]
