"""A comparison on stdout: tables that fit a terminal, what stands around them, Markdown, JSON, CSV."""

import re

import pytest
from compare_data import (
    B1,
    B8,
    compared,
    failed,
    figure,
    run_of,
    source,
)

from gdnbench.analyse.comparison import check_regressions
from gdnbench.report.compare.table import print_comparison

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


@pytest.mark.parametrize(("cards", "told"), [(("1", "1"), "on one card: ±0.2 µs"), (("1", "2"), "hosts: ±2.8 µs")])
def test_a_launch_that_no_unchanged_case_tells_is_said_to_be_unknown(shown, cards, told):
    side = compared(
        *(source(figure(), name=name, conditions={"GPU": card}) for name, card in zip("ab", cards, strict=True))
    )
    text = flat(shown(side, columns="200"))
    assert "no unchanged case tells the launch" in text
    assert told in text


def test_of_other_gpus_the_cards_own_conditions_go_without_saying(shown):
    left = run_of(KERNELS, conditions={"driver": "580", "memory clock": "3201"})
    right = run_of(KERNELS, "other", gpu="b200", conditions={"driver": "580", "memory clock": "3996"})
    assert "conditions differ" not in shown(compared(left, right))


def test_a_case_without_a_time_is_named_itself_where_columns_are_kernels_or_workloads(shown):
    measured = source(figure("decode-v1"), figure("decode-v1", workload=B8), failed(), figure(workload=B8))
    kernels = flat(shown(compared(measured, columns="kernel")))
    assert "decode-v4: crashed decode-v4 at B=1 qk4_v8: the process died" in kernels
    measured = source(figure("decode-v1"), figure("decode-v1", workload=B8), figure(), failed(workload=B8))
    batches = flat(shown(compared(measured, rows="kernel", columns="B")))
    assert "8: crashed decode-v4 at B=8 qk4_v8: the process died" in batches


def test_markdown_is_a_table_with_its_reading_folded_away(shown):
    text = shown(pair(strays=SLOWER), gate=0.01, as_markdown=True)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") - line.count("\\|") for line in table} == {7}
    assert table[0] == "| shape | kernel | A µs | B µs | ratio | verdict |"
    assert any(re.match(r"\| B=1 qk4\\_v8 \| decode-v4 \| 5.200 \| 5.460 \| 0.952x ±.*SLOWER", line) for line in table)
    assert table[-1].startswith("| geomean |")
    assert "- **Regression: decode-v4 at B=1" in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_what_is_unclear_between_runs_comes_with_advice(shown):
    noisy = {B1: 0.02}
    text = flat(shown(compared(run_of(KERNELS, noise=noisy), run_of(KERNELS, "other"), filtered="B=1")))
    assert "B: 6 cases UNCLEAR: measure both kernels in one run to tell less, or give a larger --margin" in text
