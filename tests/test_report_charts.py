"""Charts of stored runs as pictures: which kernels they show, and what is refused."""

import pytest
from history_data import BASELINE, FLOOR, KERNEL, PEER, TIMES, store_run

from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import chosen_rows


@pytest.fixture
def run(command_line):
    """Runs `gdnbench show ARGUMENTS` in this process; gives exit code, stdout, and stderr in one line."""

    def call(*arguments):
        code, out, err = command_line("show", *arguments)
        return code, out, " ".join(err.split())

    return call


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    store_run(folder, 0, samples=True)
    return folder


def labels(folder, kernels=""):
    return {row.case.label for row in chosen_rows(folder, kernels)}


def test_by_default_the_baseline_the_floors_and_the_five_fastest_are_shown(tmp_path):
    folder = store_run(tmp_path, 0, {**TIMES, **{f"decode-k{place}": 6.0 + place for place in range(9)}})
    assert labels(folder) == {FLOOR, BASELINE, KERNEL, PEER, "decode-k0", "decode-k1", "decode-k2"}
    assert labels(folder, "decode-f*, decode-x") == {BASELINE, FLOOR, KERNEL}
    assert labels(folder, "all") == {row.case.label for row in chosen_rows(folder, "*")}


CHART = ("--chart", "roofline", "-o", "chart.png")


def test_a_run_whose_kernels_all_failed_has_no_chart(run, tmp_path):
    store_run(tmp_path, 0, broken=tuple(TIMES))
    assert "no times to draw" in run("20260102", *CHART, "--out", tmp_path)[2]


def test_what_cannot_be_drawn_here_is_an_error_with_a_hint(run, results, monkeypatch):
    monkeypatch.setattr(theme, "find_spec", lambda _name: None)
    code, _, err = run("--chart", "roofline", "-o", results / "chart.png", "--out", results)
    assert code == 5
    assert "-o needs altair, vl_convert" in err
