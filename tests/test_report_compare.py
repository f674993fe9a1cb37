"""A comparison on stdout: tables that fit a terminal, what stands around them, Markdown, JSON, CSV."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from compare_data import (
    B1,
    B8,
    MAIN,
    RESULTS,
    compared,
    failed,
    figure,
    published,
    run_of,
    source,
    with_params,
)
from decode_workloads import decode_at

from gdnbench.analyse.comparison import check_regressions
from gdnbench.analyse.sources import load_sources
from gdnbench.model.status import Status
from gdnbench.verbs.compare_tables import print_comparison

KERNELS = {f"decode-v{index}": 4.0 + 0.3 * index for index in range(1, 6)}
SLOWER = {("decode-v4", 1): 1.05, ("decode-v4", 8): 1.05}


@pytest.fixture
def shown(capsys, monkeypatch):
    def show(side, columns="80", gate=None, **form):
        monkeypatch.setenv("COLUMNS", columns)
        outcome = check_regressions(side.grid.rows, side.columns[-1].ratios, gate) if gate else None
        print_comparison(side, outcome, ["one", "other run"], **form)
        return capsys.readouterr().out

    return show


def flat(text):
    return " ".join(text.split())


def pair(**more):
    return compared(run_of(KERNELS), run_of(KERNELS, "other", **more))


def test_each_workload_has_its_table_with_a_verdict_for_each_kernel(shown):
    text = shown(pair(strays=SLOWER))
    assert text.startswith("A  one (h200)\nB  other (h200)\n")
    assert [line for line in text.splitlines() if line.startswith("B=")] == ["B=1 qk4_v8", "B=8 qk4_v8"]
    assert re.search(r"decode-v4 +5\.200 +5\.460 +0\.952x ±\d\.\d\d% +SLOWER", text)
    assert re.search(r"decode-v1 +4\.300 +4\.300 +1\.000x ±\d\.\d\d% +UNCLEAR", text)
    assert re.search(r"decode-floor-copy .* floor", text)
    assert "geomean of 12 cases, B against A: 0.992x ±" in text


def test_the_launch_is_told_with_its_size(shown):
    told = flat(shown(pair(launch=0.12), columns="200"))
    assert "B against A: launch of this run +0.12 µs, from 14 unchanged cases: taken out; --raw keeps it" in told
    assert "Ratios of stream times of two runs are as with the mean of their two launches." in told
    raw = compared(run_of(KERNELS), run_of(KERNELS, "other", launch=0.12), raw=True)
    assert "left in, and added to the intervals" in flat(shown(raw, columns="200"))
    assert "launch of this run +0.00 µs" in flat(shown(pair(launch=-1e-7), columns="200"))


def test_kernel_times_are_shown_where_they_are_what_is_judged(shown):
    sides = run_of(KERNELS, kernel_times=True), run_of(KERNELS, "other", launch=1.65, kernel_times=True)
    text = shown(compared(*sides))
    assert re.search(r"kernel +A kernel µs +B kernel µs +ratio", text)
    assert re.search(r"decode-v1 +1\.800 +1\.800 +1\.00", text)
    assert "16 ratios are of kernel times (CUPTI), which hold no launch" in flat(text)
    row = next(row for row in json.loads(shown(compared(*sides), json=True))["cases"] if row["label"] == "decode-v1")
    assert (row["judged_by"], row["time_b_us"], row["kernel_b_us"]) == (
        "kernel",
        pytest.approx(5.95),
        pytest.approx(1.8),
    )
    assert row["kernel_ratio"] == row["ratio"]
    assert row["stream_ratio"] == pytest.approx(1.0, abs=0.01)


def test_a_run_without_kernel_times_is_named_where_they_would_tell_more(shown):
    sides = run_of(KERNELS, kernel_times=True), run_of(KERNELS, "other", launch=1.65)
    text = flat(shown(compared(*sides), columns="200"))
    assert "another card, and B without kernel times, so stream times are judged; a run without --timer" in text
    on_one = [replace(side, conditions={"GPU": "GPU-1"}) for side in sides]
    assert "without kernel times" not in flat(shown(compared(*on_one), columns="200"))


def test_between_gpu_models_it_is_said_what_the_intervals_hold(shown):
    stream = compared(run_of(KERNELS), run_of(KERNELS, "other", gpu="h100"))
    assert "which hold the launch of either host; the intervals allow for launches that differ by 2.8 µs" in flat(
        shown(stream, columns="200")
    )
    kernel = compared(run_of(KERNELS, kernel_times=True), run_of(KERNELS, "other", gpu="h100", kernel_times=True))
    assert "what cards of one model differ by is in the intervals" in flat(shown(kernel, columns="200"))


@pytest.mark.parametrize(("cards", "told"), [(("1", "1"), "on one card: ±0.2 µs"), (("1", "2"), "hosts: ±2.8 µs")])
def test_a_launch_that_no_unchanged_case_tells_is_said_to_be_unknown(shown, cards, told):
    side = compared(
        *(source(figure(), name=name, conditions={"GPU": card}) for name, card in zip("ab", cards, strict=True))
    )
    text = flat(shown(side, columns="200"))
    assert "no unchanged case tells the launch" in text
    assert told in text


def test_what_else_differs_is_a_warning_and_what_is_the_same_is_silent(shown):
    here = {"driver": "580", "triton": "3.6", "samples": "100", "GPU": "GPU-1"}
    left = run_of(KERNELS, conditions=here, warnings=("a cold day",))
    right = run_of(KERNELS, "other", conditions={**here, "driver": "590", "GPU": "GPU-2", "fla-core": "0.6"})
    right = replace(right, figures=tuple(replace(each, source_hash="new") for each in right.figures))
    text = flat(shown(compared(left, right), columns="200"))
    assert "warning: A: a cold day" in text
    assert "warning: conditions differ (A | B): driver 580 | 590; card GPU-1 | GPU-2 " in text
    assert "warning: sources differ: decode-floor-copy, " in text
    assert "samples" not in text
    assert "fla-core" not in text


def test_of_other_gpus_the_cards_own_conditions_go_without_saying(shown):
    left = run_of(KERNELS, conditions={"driver": "580", "memory clock": "3201"})
    right = run_of(KERNELS, "other", gpu="b200", conditions={"driver": "580", "memory clock": "3996"})
    assert "conditions differ" not in shown(compared(left, right))


def test_other_timers_are_a_warning(shown):
    side = compared(source(figure()), published(figure(timer="cupti", rounds=0)))
    assert "timers differ: nvbench | cupti" in shown(side)


def test_other_workloads_are_a_warning_unless_they_are_what_is_compared(shown):
    here, there = (
        source(figure(workload=decode_at(B=4))),
        source(figure(workload=decode_at(B=4, HQ=16, HV=32)), name="other"),
    )
    assert "workloads differ: qk4_v8 | qk16_v32" in shown(compared(here, there, rows="label,B"))
    both = source(figure(workload=decode_at(B=4)), figure(workload=decode_at(B=8)))
    assert "workloads differ" not in shown(compared(both, columns="B", rows="label"))


def test_published_figures_have_no_verdict_and_say_why(shown):
    side = compared(source(figure(time_us=4.0)), published(figure(time_us=5.0, rounds=0, citation="a paper, 2026")))
    text = flat(shown(side))
    assert "B published/b200 (b200; as published; a paper, 2026)" in text
    assert "0.800x" in text
    assert "no interval and no verdict for one case: not measured here" in text
    assert "±" not in text.partition("no interval")[0]


def test_across_gpus_what_the_hardware_explains_stands_beside(shown):
    sides = load_sources([MAIN, "published/b200"], RESULTS)
    side = compared(*sides, filtered="B=1 label=decode-v4,decode-v1,decode-triton,decode-v2,decode-v3")
    text = shown(side)
    assert re.search(r"ratio +verdict +expected +residual", text)
    assert "B: launch and latency are most of both times in 5 of 5 cases" in text
    assert "B: 2 more such lines are in --json and --csv" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    rows = json.loads(shown(side, json=True))["cases"]
    assert all(row["residual"] == pytest.approx(row["ratio"] / row["expected"], rel=1e-6) for row in rows)
    assert all(row["reason"] for row in rows)


def test_what_has_no_time_and_no_partner_is_listed_below(shown):
    left = source(figure("decode-fla"), figure(), failed("decode-v1"), figure("decode-v2"), figure("decode-v3"))
    right = source(
        figure("decode-fla"), failed(status=Status.WRONG_NUMBERS), figure("decode-v1"), figure("decode-v9"), name="b"
    )
    text = flat(shown(compared(left, right)))
    assert "B: wrong-numbers decode-v4 at B=1 qk4_v8: the process died" in text
    assert "A: crashed decode-v1 at B=1 qk4_v8: the process died" in text
    assert "only in A: decode-v2, decode-v3 at B=1 qk4_v8" in text
    assert "only in B: decode-v9 at B=1 qk4_v8" in text


def test_a_case_without_a_time_is_named_itself_where_columns_are_kernels_or_workloads(shown):
    measured = source(figure("decode-v1"), figure("decode-v1", workload=B8), failed(), figure(workload=B8))
    kernels = flat(shown(compared(measured, columns="kernel")))
    assert "decode-v4: crashed decode-v4 at B=1 qk4_v8: the process died" in kernels
    measured = source(figure("decode-v1"), figure("decode-v1", workload=B8), figure(), failed(workload=B8))
    batches = flat(shown(compared(measured, rows="kernel", columns="B")))
    assert "8: crashed decode-v4 at B=8 qk4_v8: the process died" in batches


def test_cases_that_differ_in_params_alone_are_told(shown):
    left = source(figure("decode-v1"), figure(**with_params("decode-v4", WARPS=8)))
    right = source(figure("decode-v1"), figure(**with_params("decode-v4", WARPS=4)), name="b")
    told = "other params: decode-v4 at B=1 qk4_v8 (WARPS=8 | WARPS=4); --rows shape,label joins them all the same"
    assert told in flat(shown(compared(left, right)))


def test_columns_that_do_not_fit_are_set_against_the_first_in_turn(shown):
    side = compared(*(run_of(KERNELS, name) for name in ("one", "two", "three")))
    narrow, wide = shown(side), shown(side, columns="120")
    assert max(len(line) for line in narrow.splitlines()) <= 80
    assert "B against A\n" in narrow
    assert "C against A\n" in narrow
    assert len([line for line in wide.splitlines() if line.startswith("decode-v4")]) == 2


def test_one_run_kernel_against_kernel(shown):
    text = shown(compared(run_of(KERNELS), columns="label", rows="B", filtered="label=decode-v1,decode-v4"))
    assert re.search(r"B +decode-v1 µs +decode-v4 µs +ratio +verdict", text)
    assert re.search(r"\n8 +4\.300 +5\.200 +0\.827x ±\d\.\d\d% +SLOWER", text)
    assert "geomean " in text
    assert "Figures of one run are paired by round." in text


def test_names_in_brackets_are_no_markup_and_no_colour_is_no_colour(shown, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(compared(source(figure("decode-[red]")), source(figure("decode-[red]"), name="[b]")))
    assert "decode-[red]" in text
    assert "B  [b]" in text
    assert "\x1b" not in text


def test_it_ends_in_a_line_that_can_be_run(shown):
    last = shown(pair()).splitlines()[-1]
    assert last == "next: gdnbench compare one 'other run' --fail-on slower:1%"
    assert shown(pair(), gate=0.005).splitlines()[-1].endswith(" --csv")


def test_markdown_is_a_table_with_its_reading_folded_away(shown):
    text = shown(pair(strays=SLOWER), gate=0.01, markdown=True)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") - line.count("\\|") for line in table} == {7}
    assert table[0] == "| shape | kernel | A µs | B µs | ratio | verdict |"
    assert any(re.match(r"\| B=1 qk4\\_v8 \| decode-v4 \| 5.200 \| 5.460 \| 0.952x ±.*SLOWER", line) for line in table)
    assert table[-1].startswith("| geomean |")
    assert "- **Regression: decode-v4 at B=1" in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_csv_has_a_row_for_each_pair_and_for_each_case_alone(shown):
    side = compared(run_of(KERNELS), run_of({**KERNELS, "decode-v9": 4.0}, "other", strays=SLOWER))
    rows = list(csv.DictReader(io.StringIO(shown(side, csv=True))))
    assert len(rows) == 16 + 2
    slow = next(row for row in rows if row["label"] == "decode-v4")
    assert (slow["a"], slow["b"], slow["verdict"]) == ("one", "other", "slower")
    assert float(slow["ratio_lo"]) < float(slow["ratio"]) < float(slow["ratio_hi"])
    alone = [row for row in rows if row["label"] == "decode-v9"]
    assert all((row["a"], row["b"], row["time_b_us"], row["ratio"]) == ("", "other", "4", "") for row in alone)


def test_json_holds_everything_and_no_infinity(shown):
    side = compared(source(figure(), figure("decode-v1", rounds=1)), source(figure(), figure("decode-v1"), name="b"))
    document = json.loads(shown(side, gate=0.01, json=True), parse_constant=pytest.fail)
    assert [row["label"] for row in document["cases"]] == ["decode-v4", "decode-v1"]
    assert document["cases"][1]["ratio_hi"] is None
    assert document["sources"][1]["name"] == "b"
    assert document["gate"]["untold"] == [f"decode-v4 at {B1}", f"decode-v1 at {B1}"]
    assert document["against_first"][0]["runs"][0]["unchanged"] == 1


def test_what_is_unclear_between_runs_comes_with_advice(shown):
    noisy = {B1: 0.02}
    text = flat(shown(compared(run_of(KERNELS, noise=noisy), run_of(KERNELS, "other"), filtered="B=1")))
    assert "B: 6 cases UNCLEAR: measure both kernels in one run to tell less, or give a larger --margin" in text
