"""Several clocks of one run: the gap between them, its split, and every view of a run that has them."""

import json
import re
from dataclasses import replace

import pytest
from clocks_data import RUN_ID, rows_of, store_clocks, time_us, without_time
from decode_workloads import decode_at

from gdnbench.verbs.run_clocks import contradictions, gaps_of

B1 = decode_at(B=1)
CLOCKS = {"cupti": rows_of("cupti"), "graph": rows_of("graph")}


def case_id(label, workload=B1):
    return next(row.case.id for row in rows_of("nvbench") if (row.case.label, row.case.workload) == (label, workload))


@pytest.mark.parametrize("workload", [B1, decode_at(B=8)])
def test_the_gap_is_split_by_the_empty_floors_own(workload):
    gap = gaps_of(rows_of("nvbench"), CLOCKS)[case_id("decode-v4", workload)]
    empty = time_us("nvbench", "decode-floor-empty", workload) - time_us("cupti", "decode-floor-empty", workload)
    assert gap.gap_us == pytest.approx(4.60 - 2.336)
    assert gap.launch_us == pytest.approx(empty)
    assert gap.rest_us == pytest.approx(gap.gap_us - empty)


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


def test_a_report_of_a_run_with_three_clocks_has_kernel_times_first(tmp_path, command_line):
    store_clocks(tmp_path)
    code, _, err = command_line("report", RUN_ID, "--output", tmp_path / "r.html", "--out", tmp_path)
    assert code == 0, err
    page = (tmp_path / "r.html").read_text()
    assert re.search(r"decode-v4</th>\s*<td[^>]*>2.336.*?<td[^>]*>4.600.*?<td[^>]*>74.0%", page, re.DOTALL)
    assert "kernel time, µs (log)" in page
