"""Charts of stored runs as pictures: which kernels they show, and what is refused."""

import math

import altair
import pytest
import vl_convert
from committed import RESULTS as RECORDED
from history_data import BASELINE, FLOOR, KERNEL, PEER, TIMES, store_run
from sweep_data import KERNEL as SWEPT
from sweep_data import SMALL, point, sweep_of

from gdnbench.model.measurement import Place
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import chosen_rows
from gdnbench.report.charts.sweep import sweep_chart


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


FP8 = str(RECORDED / "20261126-003619-h100-fp8-gemm-pos-processes")
CHART = ("--chart", "roofline", "-o", "chart.png")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["h200", "--chart", "pie"], "'pie' is not one of 'roofline'"),
        (["nowhere", *CHART], "no run nowhere"),
        ([FP8, *CHART, "-k", "fp8-gemm-pos-tm"], "did you mean fp8-gemm-pos-tma"),
        ([FP8, *CHART, "-k", " , "], "leave --kernel out"),
        ([*CHART, "--json"], "--chart does not go with --json"),
        (["a", "b", *CHART], "name one run"),
        (["published/b200", *CHART], "published/b200 is a table of published figures, not a run"),
        (["--chart", "roofline"], "a chart is drawn into a file, and none is named hint: add -o roofline.png"),
        (["--chart", "roofline", "-o", "chart.gif"], "-o chart.gif: the name ends in .png"),
        (["--chart", "roofline", "-o", "nowhere/chart.png"], "there is no folder nowhere"),
        (["-o", "chart.png"], "--output is of --chart"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(run, results, arguments, told):
    code, out, err = run(*arguments, "--out", results)
    assert (code, out) == (2, "")
    assert told in err


def test_a_run_whose_kernels_all_failed_has_no_chart(run, tmp_path):
    store_run(tmp_path, 0, broken=tuple(TIMES))
    assert "no times to draw" in run("20260102", *CHART, "--out", tmp_path)[2]


def test_what_cannot_be_drawn_here_is_an_error_with_a_hint(run, results, monkeypatch):
    monkeypatch.setattr(theme, "find_spec", lambda _name: None)
    code, _, err = run("--chart", "roofline", "-o", results / "chart.png", "--out", results)
    assert code == 5
    assert "-o needs altair, vl_convert" in err


SWEEPS = {
    "line": sweep_of(
        {SWEPT: {"BV": [4, 8, 16]}},
        [point(0.0, SMALL, BV=8), point(0.1, SMALL, BV=4, half=math.inf), point(0.25, SMALL, BV=16)],
    ),
    "faster in the rounds it had": sweep_of(
        {SWEPT: {"BV": [4, 8]}}, [point(0.0, BV=4), point(-0.01, place=Place.SLOWER, BV=8)]
    ),
    "three params": sweep_of(
        {SWEPT: {"BV": [4, 8], "WARPS": [1, 2], "STAGES": [1, 2]}},
        [point(0.0, BV=4, WARPS=1, STAGES=1), point(0.2, BV=8, WARPS=2, STAGES=2)],
    ),
    "text": sweep_of({SWEPT: {"MODE": ["$a_b", "<&"]}}, [point(0.0, MODE="$a_b"), point(0.1, MODE="<&")]),
}


@pytest.mark.parametrize("what", SWEEPS)
def test_a_chart_of_a_sweep_is_one_that_the_library_compiles(what):
    swept = SWEEPS[what]
    chart, height, note = sweep_chart(swept, swept.plateaus[0])
    spec = theme.page_spec(chart, height, what)
    assert vl_convert.vegalite_to_vega(spec, vl_version=theme.VEGA_LITE)["marks"]
    assert altair.LayerChart.from_dict(spec), "which raises where the schema forbids something"
    assert bool(note) is (what == "three params")


def test_where_nothing_varies_there_is_no_chart():
    swept = sweep_of({SWEPT: {"BV": [4]}}, [point(0.0, BV=4)])
    assert sweep_chart(swept, swept.plateaus[0]) is None
