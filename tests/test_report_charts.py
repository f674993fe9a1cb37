"""Charts of stored runs: in the terminal, of a sweep as a picture, and the colours that kernels have on the page."""

import io
import math
import sys
from contextlib import nullcontext
from xml.etree import ElementTree as ET

import pytest
from committed import RESULTS as RECORDED
from history_data import BASELINE, FLOOR, KERNEL, PEER, TIMES, store_run
from rich.console import Console
from sweep_data import JOINT, LARGE, SMALL, point, store_sweep, sweep_of
from sweep_data import KERNEL as SWEPT

from gdnbench.model.measurement import Place
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import chosen_rows
from gdnbench.report.charts.sweep import draw_sweep
from gdnbench.report.charts.times import print_times
from gdnbench.store.info import read_info

PREFILL = RECORDED / "20261124-031935-h200-prefill-processes"
SWEEPS = {
    "line": sweep_of(
        {SWEPT: {"BV": [4, 8, 16]}},
        [point(0.0, SMALL, BV=8), point(0.1, SMALL, BV=4, half=math.inf), point(0.25, SMALL, BV=16)],
        [point(0.0, LARGE, BV=16), point(0.5, LARGE, BV=4)],
    ),
    "heat map": JOINT,
    "one value": sweep_of({SWEPT: {"BV": [4]}}, [point(0.0, BV=4)]),
    "faster in the rounds it had": sweep_of(
        {SWEPT: {"BV": [4, 8]}}, [point(0.0, BV=4), point(-0.01, place=Place.SLOWER, BV=8)]
    ),
    "three params": sweep_of(
        {SWEPT: {"BV": [4, 8], "WARPS": [1, 2], "STAGES": [1, 2]}},
        [point(0.0, BV=4, WARPS=1, STAGES=1), point(0.2, BV=8, WARPS=2, STAGES=2)],
    ),
    "text": sweep_of({SWEPT: {"MODE": ["$a_b", "<&"]}}, [point(0.0, MODE="$a_b"), point(0.1, MODE="<&")]),
}


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


def shown(folder, width=80, **more):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    print_times(console, folder, **more)
    return console.file.getvalue()


def labels(folder, kernels=""):
    return {row.case.label for row in chosen_rows(folder, kernels)}


def test_by_default_the_baseline_the_floors_and_the_five_fastest_are_shown(tmp_path):
    folder = store_run(tmp_path, 0, {**TIMES, **{f"decode-k{place}": 6.0 + place for place in range(9)}})
    assert labels(folder) == {FLOOR, BASELINE, KERNEL, PEER, "decode-k0", "decode-k1", "decode-k2"}
    assert labels(folder, "decode-f*, decode-x") == {BASELINE, FLOOR, KERNEL}
    assert labels(folder, "all") == {row.case.label for row in chosen_rows(folder, "*")}


def test_lists_of_one_sum_are_not_drawn_as_one_point():
    workloads = read_info(PREFILL).workloads
    alone, eight = (workloads.workload({"lengths": each}, profile="") for each in ((8192,), (1024,) * 8))
    drawn = shown(PREFILL, kernels="prefill-v4", workloads=(alone, eight))
    for workload, time in ((alone, "42.741"), (eight, "44.303")):
        assert drawn.count(workload.x_term) == drawn.count(time) == 1
    assert drawn.index(alone.line) < drawn.index("42.741") < drawn.index(eight.line) < drawn.index("44.303")


def test_text_that_rich_would_interpret_is_shown_as_it_is(tmp_path):
    name = "decode-[x]$a_b^c$"
    assert name in shown(store_run(tmp_path, 0, {name: 4.0, FLOOR: 3.0}))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["h200", "--chart", "pie"], "the charts are time, roofline, sweep"),
        (["nowhere", "--chart", "time"], "no run nowhere"),
        (["--chart", "time", "-k", "decode-xy"], "did you mean decode-x"),
        (["--chart", "time", "-k", " , "], "leave --kernel out"),
        (["--chart", "time", "--shape", "B=5"], "there are B=1 qk4_v8"),
        (["--chart", "time", "--shape", "5"], "sets no axis"),
        (["--chart", "time", "-o", "chart.png"], "gdnbench report draws the times"),
        (["--chart", "sweep"], "has no swept times"),
        (["--chart", "sweep", "-k", "decode-x"], "leave out --kernel"),
        (["--chart", "sweep", "-o", "chart.gif"], "-o chart.gif: the name ends in .png"),
        (["--chart", "sweep", "-o", "nowhere/chart.png"], "there is no folder nowhere"),
        (["--chart", "sweep", "-o", "chart.png"], "has no swept times"),
        (["a", "b", "--chart", "time"], "name one run"),
        (["published/b200", "--chart", "time"], "published/b200 is a table of published figures, not a run"),
        (["-o", "chart.png"], "--output is of --chart"),
        (["--chart", "time", "--json"], "--chart does not go with --json"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(run, results, arguments, told):
    code, out, err = run(*arguments, "--out", results)
    assert (code, out) == (2, "")
    assert told in err


def test_a_run_whose_kernels_all_failed_has_no_chart(run, tmp_path):
    store_run(tmp_path, 0, broken=tuple(TIMES))
    assert "no times to draw" in run("20260102", "--chart", "time", "--out", tmp_path)[2]


def test_what_cannot_be_drawn_here_is_an_error_with_a_hint(run, results, monkeypatch):
    monkeypatch.setattr(theme, "find_spec", lambda _name: None)
    code, _, err = run("--chart", "sweep", "-o", results / "chart.png", "--out", results)
    assert code == 5
    assert "-o needs altair, vl_convert" in err
    monkeypatch.setitem(sys.modules, "plotext", None)
    code, _, err = run("--chart", "time", "--out", results)
    assert code == 5
    assert "ModuleNotFoundError" in err
    assert "hint: pip install 'plotext" in err


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """Draws a sweep; Altair checks each part against the schema of Vega-Lite, which gdnbench spares its users."""
    monkeypatch.setattr(theme, "unchecked", nullcontext)

    def drawn(swept, name="figure.svg"):
        folder = tmp_path / "stored"
        folder.mkdir()
        store_sweep(folder, swept)
        draw_sweep(folder, tmp_path / name)
        return tmp_path / name

    return drawn


def words(path):
    """The text of an SVG file, which holds it as text or as comments beside its outlines."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    return [element.text.strip() for element in ET.parse(path, parser).iter() if element.text and element.text.strip()]


def test_a_sweep_becomes_a_png(draw):
    made = draw(JOINT, "figure.png").read_bytes()
    assert made.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(made) > 5000


@pytest.mark.parametrize("what", SWEEPS)
def test_a_sweep_becomes_an_svg_that_parses(draw, what):
    found = words(draw(SWEEPS[what]))
    assert any("20260102-030405-h200-decode" in text for text in found)
    if what == "heat map":
        assert {"BV", "WARPS", "4", "8", "16", "2", "-", "2.0", "31.0", "7.0"} <= set(found)
        assert all(word in " ".join(found) for word in ("B=1 qk4_v8", "B=64 qk4_v8", "NVIDIA H200"))
