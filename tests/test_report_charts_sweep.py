"""Sweeps as picture files, really drawn."""

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from committed import RESULTS
from sweep_data import JOINT, KERNEL, LARGE, SMALL, point, store_sweep, sweep_of

from gdnbench.errors import ExitCode, MachineError, UsageError
from gdnbench.model.measurement import Place
from gdnbench.report.charts import plot
from gdnbench.report.charts.plot import check_picture, draw_sweep

PNG = b"\x89PNG\r\n\x1a\n"
LINE = sweep_of(
    {KERNEL: {"BV": [4, 8, 16]}},
    [point(0.0, SMALL, BV=8), point(0.1, SMALL, BV=4, half=math.inf), point(0.25, SMALL, BV=16)],
    [point(0.0, LARGE, BV=16), point(0.5, LARGE, BV=4)],
)
SWEEPS = {
    "line": LINE,
    "heat map": JOINT,
    "one value": sweep_of({KERNEL: {"BV": [4]}}, [point(0.0, BV=4)]),
    "one of two works": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4)]),
    "faster in the rounds it had": sweep_of(
        {KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4), point(-0.01, place=Place.SLOWER, BV=8)]
    ),
    "three params": sweep_of(
        {KERNEL: {"BV": [4, 8], "WARPS": [1, 2], "STAGES": [1, 2]}},
        [point(0.0, BV=4, WARPS=1, STAGES=1), point(0.2, BV=8, WARPS=2, STAGES=2)],
    ),
    "text": sweep_of({KERNEL: {"MODE": ["$a_b", "<&"]}}, [point(0.0, MODE="$a_b"), point(0.1, MODE="<&")]),
}


@pytest.fixture
def draw(tmp_path):
    def drawn(sweep, name="figure.svg", **more):
        folder = tmp_path / "stored"
        folder.mkdir()
        store_sweep(folder, sweep, **more)
        draw_sweep(folder, tmp_path / name)
        return tmp_path / name

    return drawn


def words(path):
    """The text of an SVG file, which holds it as text or as comments beside its outlines."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    return [element.text.strip() for element in ET.parse(path, parser).iter() if element.text and element.text.strip()]


@pytest.mark.parametrize("what", SWEEPS)
def test_a_sweep_becomes_a_png(draw, what):
    made = draw(SWEEPS[what], "figure.png").read_bytes()
    assert made.startswith(PNG)
    assert len(made) > 5000


@pytest.mark.parametrize("what", SWEEPS)
def test_a_sweep_becomes_an_svg_that_parses(draw, what):
    assert words(draw(SWEEPS[what]))


def test_the_end_of_the_name_decides_in_either_case(draw):
    assert draw(LINE, "figure.PNG").read_bytes().startswith(PNG)


def test_a_pdf_can_be_drawn(draw):
    assert draw(LINE, "figure.pdf").read_bytes().startswith(b"%PDF")


def test_a_heat_map_holds_its_params_values_and_percents(draw):
    found = words(draw(JOINT))
    for word in ("BV", "WARPS", "4", "8", "16", "2", "-", "2.0", "31.0", "7.0"):
        assert word in found, word
    text = " ".join(found)
    assert "B=1 qk4_v8" in text
    assert "B=64 qk4_v8" in text
    assert "NVIDIA H200" in text
    assert "20260102-030405-h200-decode" in text


def test_a_line_holds_its_param_its_values_and_the_answer(draw):
    found = words(draw(LINE))
    for word in ("BV", "slower than the best", "4", "8", "16"):
        assert word in found, word
    assert "BV=16" in " ".join(found)


def test_a_third_param_is_named(draw):
    assert "each cell: the best of STAGES" in " ".join(words(draw(SWEEPS["three params"])))


def test_there_is_a_panel_for_each_kernel_and_workload(draw):
    groups = [[point(0.0, workload, kernel=name, BV=4), point(0.1, workload, kernel=name, BV=8)]
              for name in ("decode-x", "decode-y") for workload in (SMALL, LARGE)]  # fmt: skip
    text = " ".join(words(draw(sweep_of({"decode-x": {"BV": [4, 8]}, "decode-y": {"BV": [4, 8]}}, *groups))))
    for name in ("decode-x", "decode-y"):
        for workload in (SMALL, LARGE):
            assert f"{name} {workload}" in text


@pytest.mark.parametrize("folder", ["20261121-180525-h200-decode-sweep-bv", "20261121-180544-h200-decode-sweep-joint"])
def test_recorded_sweeps_are_drawn(tmp_path, folder):
    draw_sweep(RESULTS / folder, tmp_path / "figure.svg")
    assert "BV" in words(tmp_path / "figure.svg")


@pytest.mark.parametrize("name", ["figure", "figure.gif", "figure.png.txt", ".png"])
def test_a_name_that_says_no_format_is_refused_with_one_that_does(tmp_path, name):
    with pytest.raises(UsageError, match="--plot") as caught:
        check_picture(tmp_path / name)
    assert "chart.png" in caught.value.hint


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere") as caught:
        check_picture(tmp_path / "nowhere" / "figure.png")
    assert caught.value.hint


def test_a_name_in_the_current_folder_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_picture(Path("figure.svg"))


def test_without_the_library_that_draws_its_install_command_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(plot, "find_spec", lambda _name: None)
    with pytest.raises(MachineError, match="altair, vl_convert") as caught:
        check_picture(tmp_path / "figure.png")
    assert "pip install" in caught.value.hint
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


def test_a_sweep_without_times_cannot_be_drawn(draw):
    with pytest.raises(UsageError, match="has no swept times") as caught:
        draw(sweep_of({KERNEL: {"BV": [4, 8]}}))
    assert caught.value.hint


def test_a_run_that_swept_nothing_cannot_be_drawn(tmp_path):
    store_sweep(tmp_path, JOINT)
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(UsageError, match="has no swept times"):
        draw_sweep(tmp_path, tmp_path / "figure.png")
