"""Single charts of a stored run, really drawn."""

import math
import re
from contextlib import nullcontext
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from committed import RESULTS as RECORDED
from decode_workloads import decode_at
from history_data import BASELINE, FLOOR, KERNEL, PEER, TIMES, store_run
from rich.console import Console

from gdnbench.errors import RunFormatError, UnknownNameError, UsageError
from gdnbench.model.status import Role
from gdnbench.report.charts.layout import BLOCKS, blocks, log_ticks, spread
from gdnbench.report.charts.plot import CHARTS, draw_chart, print_chart
from gdnbench.report.charts.selection import COLOURS, choices_of, open_view, slots_of, time_us
from gdnbench.report.charts.theme import BASELINE_MARKER, LIGHT, MARKERS
from gdnbench.store.files import read_file
from gdnbench.store.info import read_info
from gdnbench.store.samples import RoundSamples, read_rounds, write_samples

PNG = b"\x89PNG\r\n\x1a\n"
OF_ANY_RUN = [chart for chart in CHARTS if chart != "sweep"]
MAIN = RECORDED / "20261122-215641-h200-decode-processes"
MANY = RECORDED / "20261122-215641-h200-decode-processes"
KERNELS = RECORDED / "20261121-101900-h200-decode-main"
DISPATCH = RECORDED / "20261122-003003-h200-decode-dispatch"
SWEEP = RECORDED / "20261121-180525-h200-decode-sweep-bv"
PREFILL = RECORDED / "20261124-031935-h200-prefill-processes"
PREFILL_LISTS = [
    read_info(PREFILL).workloads.workload({"lengths": each}, profile="") for each in ((8192,), (1024,) * 8)
]


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    """A sweep's run, whose labels are the longest, with a sample for each of its rounds: the repository keeps none."""
    folder = tmp_path_factory.mktemp("long") / DISPATCH.name
    folder.mkdir()
    for name in ("run.json", "measurements.csv", "rounds.csv"):
        (folder / name).write_bytes(read_file(DISPATCH / name))
    write_samples(
        folder, (RoundSamples(case, 1, times[np.isfinite(times)]) for case, times in read_rounds(folder).items())
    )
    return folder


@pytest.fixture
def folder(tmp_path):
    return store_run(tmp_path, 0, samples=True)


@pytest.fixture
def checked(monkeypatch):
    """Altair checks each part against the schema of Vega-Lite when it is made, which gdnbench spares its users."""
    monkeypatch.setattr("gdnbench.report.charts.plot.unchecked", nullcontext)


def words(path):
    return " ".join(text for element in ET.parse(path).iter() for text in [element.text] if text and text.strip())


def shown(chart, folder, width=80, **more):
    console = Console(width=width, record=True, file=open("/dev/null", "w"), color_system=None)  # noqa: PTH123, SIM115
    print_chart(console, chart, folder, **more)
    return console.export_text()


@pytest.mark.parametrize("chart", OF_ANY_RUN)
def test_a_chart_becomes_a_png(tmp_path, folder, chart):
    draw_chart(tmp_path / "chart.png", chart, folder)
    made = (tmp_path / "chart.png").read_bytes()
    assert made.startswith(PNG)
    assert len(made) > 5000


@pytest.mark.parametrize("chart", OF_ANY_RUN)
def test_a_chart_becomes_an_svg_that_names_its_kernels_units_and_run(tmp_path, folder, chart, checked):
    draw_chart(tmp_path / "chart.svg", chart, folder)
    text = words(tmp_path / "chart.svg")
    for word in (KERNEL, BASELINE, FLOOR, "NVIDIA H200", "20260102-030405-h200-decode", "qk4_v8", "µs"):
        assert word in text, word


@pytest.mark.parametrize("chart", OF_ANY_RUN)
@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("kernels", ["", "all"])
def test_every_kernel_is_named_and_no_number_cut_at_60_columns(long_names, chart, width, kernels):
    lines = shown(chart, long_names, width, kernels=kernels).splitlines()
    text = "\n".join(lines)
    of_times = {"by_kernel": chart in {"time", "sol"}, "empty": chart in {"time", "rounds"}}
    view = open_view(long_names, kernels, every=chart == "time", **of_times)
    rows = [row for workload in view.workloads for row in view.at(workload)]
    for row in rows if chart != "sol" else [row for row in rows if row.role is not Role.FLOOR]:
        assert row.case.label in text
        assert chart == "time" or f"{time_us(row):.3f}" in text
    assert max(map(len, lines[1:])) <= width
    endings = {"sol": "µs", "rounds": "%"}
    told = [line for line in lines if re.search(r"\d\.\d{3}", line)]
    assert all(line.rstrip().endswith(endings.get(chart, "")) for line in told)


def test_a_recorded_sweep_is_drawn_and_shown(tmp_path, checked):
    draw_chart(tmp_path / "chart.png", "sweep", SWEEP)
    assert (tmp_path / "chart.png").read_bytes().startswith(PNG)
    assert "% slower than the best, by BV" in shown("sweep", SWEEP)


def test_a_run_that_swept_nothing_has_no_chart_of_a_sweep(tmp_path, folder):
    with pytest.raises(UsageError, match="has no swept times"):
        shown("sweep", folder)
    with pytest.raises(UsageError, match="has no swept times"):
        draw_chart(tmp_path / "chart.png", "sweep", folder)


def test_by_default_the_baseline_the_floors_and_the_five_fastest_are_shown(tmp_path):
    times = {**TIMES, **{f"decode-k{place}": 6.0 + place for place in range(9)}}
    labels = open_view(store_run(tmp_path, 0, times)).labels
    assert set(labels) == {FLOOR, BASELINE, KERNEL, PEER, "decode-k0", "decode-k1", "decode-k2"}


def test_a_floor_that_moves_nothing_is_left_out_where_it_would_squeeze_the_others():
    assert "decode-floor-empty" in open_view(MAIN).labels
    assert "decode-floor-empty" not in open_view(MAIN, empty=False).labels
    assert "decode-floor-empty" in open_view(MAIN, "decode-floor*", empty=False).labels


def test_kernels_are_chosen_by_name_glob_or_all(folder):
    assert open_view(folder, "decode-x").labels == (KERNEL,)
    assert set(open_view(folder, "decode-f*, decode-x").labels) == {BASELINE, FLOOR, KERNEL}
    assert set(open_view(folder, "all").labels) == set(TIMES)


@pytest.mark.parametrize(("kernels", "hint"), [("decode-xx", "decode-x"), ("zz", "there are"), (" , ", "--kernel")])
def test_a_kernel_that_the_run_does_not_have_is_refused(folder, kernels, hint):
    with pytest.raises(UnknownNameError) as caught:
        open_view(folder, kernels)
    assert hint in caught.value.hint


def test_a_workload_that_the_run_does_not_have_is_refused_with_those_it_has(folder):
    with pytest.raises(UnknownNameError, match="B=9") as caught:
        open_view(folder, workloads=[decode_at(B=9)])
    assert "B=1 qk4_v8" in caught.value.hint


def test_only_time_shows_every_batch_size_by_default():
    assert [workload.B for workload in open_view(MAIN, every=True).workloads] == [1, 8, 64]
    assert [workload.B for workload in open_view(MAIN).workloads] == [1]


def test_time_does_not_draw_lists_of_one_sum_as_one_point():
    alone, eight = PREFILL_LISTS
    assert [str(each) for each in open_view(PREFILL, every=True).workloads] == [
        f"qk4_v8 lengths={length} forgetful" for length in (64, 1024, 8192)
    ]
    drawn = shown("time", PREFILL, kernels="prefill-v4", workloads=PREFILL_LISTS)
    for workload, time in ((alone, "42.741"), (eight, "44.303")):
        assert drawn.count(workload.x_term) == drawn.count(time) == 1
    assert drawn.index(alone.line) < drawn.index("42.741") < drawn.index(eight.line) < drawn.index("44.303")


def test_the_share_is_the_copying_floors_time_over_the_kernels(folder):
    (line,) = [line for line in shown("sol", folder).splitlines() if line.startswith(KERNEL)]
    share, time = line.split()[-3:-1]
    assert float(share.rstrip("%")) == pytest.approx(100 / 1.1, abs=0.5)
    assert float(time) == pytest.approx(4.4, abs=0.02)


def test_without_a_floor_there_is_no_speed_of_light(tmp_path):
    folder = store_run(tmp_path, 0, {KERNEL: 4.0, BASELINE: 5.0})
    with pytest.raises(UsageError, match="no copying floor"):
        shown("sol", folder)
    with pytest.raises(UsageError, match="only floors"):
        shown("sol", store_run(tmp_path, 1), kernels=FLOOR)


def test_without_samples_their_file_is_named(folder, tmp_path):
    (folder / "samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunFormatError, match=r"samples\.parquet") as caught:
        shown("samples", folder)
    assert "rounds" in caught.value.hint
    (folder / "samples.parquet").unlink()
    with pytest.raises(RunFormatError, match=r"samples\.parquet"):
        draw_chart(tmp_path / "chart.png", "samples", folder)


def test_a_run_whose_kernels_all_failed_has_no_chart(tmp_path):
    folder = store_run(tmp_path, 0, broken=tuple(TIMES))
    with pytest.raises(UnknownNameError, match="no times to draw"):
        shown("time", folder)


def test_an_interval_that_is_unknown_or_rounded_away_is_no_bar(tmp_path, folder):
    table = folder / "measurements.csv"
    lines = table.read_text().splitlines()
    columns = lines[0].split(",")
    low, high, time = (columns.index(name) for name in ("time_lo_us", "time_hi_us", "time_us"))
    for place, ends in enumerate([("-inf", "inf"), ("", "")], start=1):
        cells = lines[place].split(",")
        cells[low], cells[high] = ends
        lines[place] = ",".join(cells)
    cells = lines[3].split(",")
    cells[low] = cells[high] = str(float(cells[time]) + 1e-6)
    lines[3] = ",".join(cells)
    table.write_text("\n".join(lines) + "\n")
    for chart in OF_ANY_RUN:
        draw_chart(tmp_path / "chart.png", chart, folder)
        assert shown(chart, folder)


def test_text_that_vega_or_rich_would_interpret_is_shown_as_it_is(tmp_path):
    name = "decode-[x]$a_b^c$"
    folder = store_run(tmp_path, 0, {name: 4.0, FLOOR: 3.0}, samples=True)
    for chart in OF_ANY_RUN:
        draw_chart(tmp_path / "chart.svg", chart, folder)
        assert name in words(tmp_path / "chart.svg")
        assert name in shown(chart, folder)


def test_the_kernels_that_are_shown_by_default_have_markers_of_their_own():
    view = open_view(KERNELS, every=True)
    assert len(view.labels) == 8
    slots = [slot for slot, label in enumerate(view.slots) if label]
    floors = {row.case.label for row in view.rows if row.role is Role.FLOOR}
    assert len(slots) == len(set(view.labels) - floors) == 6
    assert view.slots[-1] == view.info.baseline  # which has a marker that no kernel has
    assert len({slot % len(MARKERS) for slot in slots[:-1]}) == 5
    assert BASELINE_MARKER not in MARKERS


def test_no_two_kernels_of_six_share_a_colour_or_a_marker():
    slots = open_view(MAIN, "decode-v1*,decode-v4*").slots
    places = [place for place, label in enumerate(slots) if label]
    assert {slots[place] for place in places} == {
        "decode-v1", "decode-v1b", "decode-v1c", "decode-v1d", "decode-v4", "decode-v4b"
    }  # fmt: skip
    assert len({LIGHT.series[place % COLOURS] for place in places}) == 6
    assert len({(place % COLOURS, place % len(MARKERS)) for place in range(60)}) == 60


def test_a_kernel_has_its_colour_in_every_chart_and_on_the_page():
    rows = open_view(MAIN).rows
    page = slots_of([choice for choice in choices_of(rows, "decode-fla") if choice.chosen])
    assert page[-1] == "decode-fla"
    for kernels in ("decode-v4*,decode-triton", "decode-triton,decode-fla", "", "decode-v1c"):
        shown = open_view(MAIN, kernels).slots
        for slot, label in enumerate(page[:-1]):
            assert label not in shown or shown.index(label) == slot


def test_a_kernel_whose_colour_is_taken_has_one_that_is_free():
    choices = choices_of(open_view(MANY).rows, "decode-fla")
    assert {choice.slot for choice in choices} == {-1, *range(COLOURS)}
    assert sorted(slots_of(choices)) == sorted(choice.label for choice in choices)
    own, other = [choice for choice in choices if choice.slot == 0][:2]
    assert slots_of([other]) == [other.label]
    assert slots_of([own, other]) == [own.label, other.label]


def test_labels_are_moved_apart_and_no_farther_than_needed():
    assert spread([0.1, 0.5, 0.9], 0.2) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5], 0.2) == pytest.approx([0.4, 0.6])
    moved = spread([0.3, 0.52, 0.5, 0.5, 0.9], 0.1)
    assert moved == pytest.approx([0.3, 0.6066667, 0.4066667, 0.5066667, 0.9], abs=1e-6)
    random = np.random.default_rng(1).uniform(size=12).tolist()
    assert min(np.diff(sorted(spread(random, 0.1)))) >= 0.1 - 1e-9
    assert np.argsort(spread(random, 0.1)).tolist() == np.argsort(random).tolist()
    assert spread([], 0.1) == []


def test_labels_stay_beside_the_axis_where_they_fit():
    assert spread([0.98, 0.99, 0.1], 0.1, 0.0, 1.0) == pytest.approx([0.9, 1.0, 0.1])
    assert spread([0.0, 0.01], 0.1, 0.0, 1.0) == pytest.approx([0.0, 0.1])
    assert max(spread([1.0] * 9, 0.1, 0.0, 1.0)) == pytest.approx(1.0)


def test_a_logarithmic_axis_names_round_numbers():
    assert log_ticks(2.5, 60.0) == [3, 5, 10, 20, 30, 50]
    assert log_ticks(0.15, 0.6) == pytest.approx([0.2, 0.3, 0.5])


def test_blocks_are_as_high_as_their_values():
    assert blocks(np.array([0.0, 0.5, 1.0, math.nan, -9.0, 9.0]), 0.0, 1.0) == f"{BLOCKS[0]}▅{BLOCKS[-1]} ▁█"
    assert blocks(np.array([2.0, 2.0]), 2.0, 2.0) == "▁▁"


def test_a_recorded_run_that_kept_no_samples_says_so_and_what_needs_none():
    with pytest.raises(RunFormatError, match=r"samples\.parquet is missing") as caught:
        shown("samples", DISPATCH)
    assert caught.value.hint == "gdnbench show --chart rounds needs no samples"
