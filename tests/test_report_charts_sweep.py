"""Sweeps as picture files, really drawn."""

import math
from xml.etree import ElementTree as ET

import pytest
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
