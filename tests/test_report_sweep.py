"""A stored sweep on stdout: the answer, charts and tables in a terminal of 80 columns, JSON, CSV, a declaration."""

import csv
import io
import json
import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from committed import RESULTS as RECORDED
from decode_workloads import decode_at
from run_data import case, failed, info, measured, store
from sweep_data import JOINT, KERNEL, LARGE, SMALL, label_of, point, store_sweep, sweep_of

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.load import read_dispatch
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.declaration import Param
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.measurement import OneForAll, Place
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Shape
from gdnbench.report.charts.sweep import best_at, leading_params
from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_measurements
from gdnbench.store.tables import read_sweep, write_sweep
from gdnbench.verbs.show_sweep import print_sweep

ONE_PARAM = RECORDED / "20261121-180525-h200-decode-sweep-bv"
SEVERAL = RECORDED / "20261121-180544-h200-decode-sweep-joint"
FAILED = [{"BV": 4, "WARPS": warps} for warps in (1, 8)] + [{"BV": 16, "WARPS": 2}, {"BV": 16, "WARPS": 8}]

LINES = sweep_of(
    {KERNEL: {"BV": [4, 8, 16]}},
    [point(0.0, SMALL, BV=8), point(0.1, SMALL, BV=4), point(0.25, SMALL, BV=16)],
    [point(0.0, LARGE, BV=16), point(0.5, LARGE, BV=4)],
)


@pytest.fixture
def stored(tmp_path):
    store_sweep(tmp_path, JOINT, without=FAILED)
    return tmp_path


@pytest.fixture
def shown(stored, capsys, monkeypatch):
    def show(columns="80", folder=stored, **form):
        monkeypatch.setenv("COLUMNS", columns)
        print_sweep(folder, **{"json": False, "csv": False, "dispatch": False, **form})
        return capsys.readouterr().out

    return show


DECODE = load_catalog(default_roots()[:1]).ops["decode"]


def flat(text):
    return " ".join(text.split())


def section(text, start, end="\n\n"):
    return text[text.index(start) :].partition(end)[0]


def test_the_answer_for_each_workload_is_told_in_a_line(shown):
    text = flat(shown())
    assert "2 points tie within 0.30%; the simplest is BV=8 WARPS=4" in text
    assert "the best is BV=8 WARPS=2" in text
    assert "1 more may tie: a larger --budget would tell" in text


def test_the_answer_is_compared_with_the_baseline(shown):
    assert re.search(r"25% ±\d+\.\d+% faster than decode-fla \(FASTER\)", flat(shown())), shown()


def test_one_point_for_every_workload_comes_with_its_price(shown):
    wanted = "decode-x, one point for every shape: BV=8 WARPS=2 costs at most 0.40% (B=1 qk4_v8), 0.20% on average"
    assert wanted in flat(shown())


def test_each_point_has_a_row_with_its_place_fastest_first(shown):
    table = section(shown(), "decode-x  B=1 qk4_v8")
    rows = [line.split() for line in table.splitlines()[2:7]]
    assert [(row[0], row[1]) for row in rows] == [("16", "4"), ("8", "4"), ("8", "2"), ("4", "4"), ("4", "2")]
    assert [word for row in rows for word in row if word.isalpha()] == ["BEST", "TIES", "UNCLEAR", "SLOWER", "SLOWER"]
    assert "2.00% ±1.00%" in table
    assert "4.004" in table
    assert rows[-1][3] == "31%"  # of two rounds, whose interval has no end
    assert "inf" not in table
    assert "nan" not in table


def test_points_that_failed_are_told_together_with_their_first_reason(shown):
    text = flat(shown())
    assert "build-failed decode-x, 4 points (BV=4:WARPS=1 at B=1 qk4_v8, " in text
    assert "…): no [room] for it" in text
    assert "more of that" not in text


def test_where_every_point_failed_it_says_so(tmp_path, shown):
    store_sweep(tmp_path, sweep_of({KERNEL: {"BV": [4, 16], "WARPS": [1, 2, 8]}}), without=FAILED)
    text = flat(shown(folder=tmp_path))
    assert "decode-x, every point: no [room] for it" in text
    assert "next: gdnbench show" in text
    assert "--emit-dispatch" not in text


def test_the_noise_floor_is_told_for_each_workload(shown):
    lines = [line for line in shown().splitlines() if line.startswith("A/A")]
    assert len(lines) == 2
    assert "B=64" in lines[1]


def test_what_was_tried_and_what_it_ran_on_comes_first(stored, shown):
    first = flat(shown()).partition("decode-x B=1")[0]
    assert "sweep on NVIDIA H200: 12 points: decode-x BV=4,8,16 WARPS=2,4" in first
    assert "(partial)" not in first
    store_sweep(stored, JOINT, complete=False)
    assert "(partial)" in shown()


def test_a_heat_map_has_a_cell_for_each_pair_of_values_and_a_dash_where_the_point_failed(shown):
    cells = [line.split() for line in section(shown(), "decode-x B=1 qk4_v8: %").splitlines()[1:]]
    assert cells == [["BV", "\\", "WARPS", "2", "4"], ["4", "31.0", "2.0"], ["8", "0.4", "0.1"], ["16", "-", "0.0"]]


def test_a_third_param_shows_the_best_of_its_values(tmp_path, shown):
    grid = [(bv, warps, stages) for bv in (4, 8) for warps in (1, 2) for stages in (1, 2)]
    points = [
        point(0.5 * (bv == 4) + 0.1 * (warps == 1) + 0.01 * (stages == 1), BV=bv, WARPS=warps, STAGES=stages)
        for bv, warps, stages in grid
    ]
    points.sort(key=lambda each: each.slower_by)
    store_sweep(tmp_path, sweep_of({KERNEL: {"STAGES": [1, 2], "BV": [4, 8], "WARPS": [1, 2]}}, points))
    text = shown(folder=tmp_path)
    assert "the best of STAGES in each cell" in text
    cells = [line.split() for line in section(text, "decode-x B=1 qk4_v8: %").splitlines()[1:]]
    assert cells == [["BV", "\\", "WARPS", "1", "2"], ["4", "60.0", "50.0"], ["8", "10.0", "0.0"]]


def cube(a_costs, b_costs, c_costs):
    """Points of three params, whose second value costs so much."""
    return [
        point(a * a_costs + b * b_costs + c * c_costs, P=a, Q=b, R=c, place=Place.SLOWER)
        for a in (0, 1) for b in (0, 1) for c in (0, 1)
    ]  # fmt: skip


def test_the_two_params_that_matter_most_lead_in_the_order_declared():
    axes = {"P": [0, 1], "Q": [0, 1], "R": [0, 1]}
    assert leading_params([cube(0.01, 0.05, 0.2)], axes) == ("Q", "R")
    assert leading_params([cube(0.3, 0.05, 0.2)], axes) == ("P", "R")
    assert leading_params([cube(0.01, 0.05, 0.2), cube(0.5, 0.05, 0.2)], axes) == ("P", "R")
    assert best_at(cube(0.01, 0.05, 0.2), ["R"])[1,].params == {"P": 0, "Q": 0, "R": 1}


def test_one_param_is_drawn_as_a_line_for_each_workload(tmp_path, shown):
    store_sweep(tmp_path, LINES)
    text = shown(folder=tmp_path)
    chart = section(text, "decode-x: % slower than the best, by BV", "\n\n\n")
    assert "B=1 qk4_v8" in chart
    assert "B=64 qk4_v8" in chart
    assert re.search(r"^ +4 +8 +16 *$", chart, re.MULTILINE)
    assert "50┤" in chart
    assert any(0x2801 <= ord(letter) <= 0x28FF for letter in chart)


def test_a_param_of_one_value_is_no_axis_of_a_chart(tmp_path, shown):
    fixed = replace(LINES, axes={KERNEL: {"WARPS": [2], "BV": [4, 8, 16]}})
    fixed = replace(fixed, points=tuple(replace(each, params={**each.params, "WARPS": 2}) for each in fixed.points))
    store_sweep(tmp_path, fixed)
    assert "by BV" in shown(folder=tmp_path)


ODD = {
    "one value": sweep_of({KERNEL: {"BV": [4]}}, [point(0.0, BV=4)]),
    "one of two works": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4)]),
    "all alike": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4), point(0.0, place=Place.TIED, BV=8)]),
    "text": sweep_of({KERNEL: {"MODE": ["[red]", "ünï"]}}, [point(0.0, MODE="ünï"), point(0.1, MODE="[red]")]),
    "none works": sweep_of({KERNEL: {"BV": [4, 8]}}),
    "faster in the rounds it had": sweep_of(
        {KERNEL: {"BV": [4, 8], "WARPS": [1, 2]}},
        [point(0.0, BV=4, WARPS=1), point(-0.5, place=Place.SLOWER, BV=8, WARPS=2)],
    ),
    "far slower": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4), point(1234.5, BV=8)]),
    "other heads": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, decode_at(HQ=2, HV=4, K=64, V=32), BV=4)]),
}


@pytest.mark.parametrize("what", ODD)
def test_whatever_it_found_a_sweep_can_be_shown(tmp_path, shown, what):
    store_sweep(tmp_path, ODD[what])
    forms = ({}, {"json": True}, {"csv": True}, {"dispatch": True})
    for form in forms if ODD[what].plateaus else forms[:-1]:
        text = shown(folder=tmp_path, **form)
        assert "nan" not in text
        assert "Traceback" not in text


def test_without_a_time_there_is_nothing_to_declare(tmp_path, shown):
    store_sweep(tmp_path, ODD["none works"])
    with pytest.raises(UsageError, match="no point"):
        shown(folder=tmp_path, dispatch=True)


WIDE = sweep_of(
    {KERNEL: {"BV": [2**n for n in range(12)], "WARPS": [1 << n for n in range(12)], "A_LONG_PARAM_NAME": [1, 2]}},
    [point(0.003 * n, BV=2**n, WARPS=2048 >> n, A_LONG_PARAM_NAME=1) for n in range(12)],
)


@pytest.mark.parametrize("sweep", [JOINT, LINES, WIDE], ids=["joint", "lines", "wide"])
def test_nothing_is_wider_than_80_columns_and_no_number_is_cut(tmp_path, shown, sweep):
    store_sweep(tmp_path, sweep)
    lines = shown(folder=tmp_path).splitlines()
    told = [line for line in lines if not line.startswith(("stored in", "next:"))]  # to be copied, not folded
    assert max(map(len, told)) <= 80
    if sweep is WIDE:
        assert {"1024", "2048"} <= set(" ".join(line for line in told if "\\ WARPS" in line).split())
    assert not any("…" in line for line in told if not line.startswith("… and"))


@pytest.mark.parametrize("folder", [ONE_PARAM, SEVERAL], ids=["one-param", "several"])
@pytest.mark.parametrize("columns", ["80", "120"])
def test_sweeps_of_an_h200_fit_the_terminal_without_colours(shown, folder, columns):
    text = shown(columns, folder)
    assert "\x1b" not in text
    told = [line for line in text.splitlines() if not line.startswith(("stored in", "next:"))]
    assert max(map(len, told)) <= int(columns)
    assert "nan" not in text


def test_a_sweep_of_one_param_on_an_h200_is_answered(shown):
    text = flat(shown(folder=ONE_PARAM))
    assert "the best is BV=8" in text
    assert "144 0 256" in text  # registers, spills and shared memory of BV=128


def test_a_joint_sweep_on_an_h200_is_answered(shown):
    text = flat(shown(folder=SEVERAL))
    assert "3 points tie within 0.18%; the simplest is BV=16 WARPS=16 STAGES=1" in text
    assert "one point for every shape: BV=8 WARPS=8 STAGES=1 costs at most 7.05% (B=64 qk4_v8)" in text
    assert "… and 72 more" in text


@pytest.mark.parametrize("folder", [ONE_PARAM, SEVERAL], ids=["one-param", "several"])
def test_the_points_of_a_stored_sweep_are_its_measurements(folder):
    sweep = read_sweep(folder)
    rows = {(row.case.label, row.case.workload): row for row in read_measurements(folder)}
    for each in sweep.points:
        assert rows[each.label, each.workload].timing.rounds == each.rounds
        assert rows[each.label, each.workload].case.variant.params == each.params


def test_json_is_whole_and_unknown_ends_are_null(shown):
    document = json.loads(shown(json=True), parse_constant=pytest.fail)
    assert set(document) == {"run", "sweep", "measurements"}
    assert document["run"]["run_id"] == info().run_id
    assert len(document["sweep"]["points"]) == len(JOINT.points)
    assert document["sweep"]["points"][4]["slower_hi"] is None
    assert document["sweep"]["plateaus"][0]["simplest"] == label_of({"BV": 8, "WARPS": 4})
    assert len(document["measurements"]) == len(JOINT.points) + len(FAILED) + 4


def test_csv_has_a_row_for_each_point_with_its_place(shown):
    rows = list(csv.DictReader(io.StringIO(shown(csv=True))))
    assert len(rows) == len(JOINT.points) + len(FAILED)
    by_point = {(row["label"], row["B"]): row for row in rows}
    small = by_point[label_of({"BV": 4, "WARPS": 4}), "1"]
    assert (small["place"], small["slower_by"], small["BV"], small["status"]) == ("slower", "0.02", "4", "ok")
    assert by_point[label_of({"BV": 8, "WARPS": 2}), "64"]["place"] == "best"
    failed = by_point[label_of(FAILED[0]), "1"]
    assert (failed["place"], failed["slower_by"], failed["status"]) == ("", "", "build-failed")


def declared(text, params):
    """The kernel whose declaration holds the text."""
    made = eval(f"dict({text})", {"Shape": Shape, "dict": dict})
    kernel = TorchKernel(name=KERNEL, params=params, **made)
    return CatalogEntry(kernel, DECODE, Path(), Path(), "")


def workloads_of(entry):
    """The workloads for which it has defaults of their own."""
    return {DECODE.workload(workload): values for workload, values in entry.kernel.by_shape.items()}


PARAMS = {"BV": Param(default=4, choices=(4, 8, 16)), "WARPS": Param(default=2, choices=(2, 4))}


def test_the_declaration_gives_each_workload_its_simplest_point(shown):
    kernel = declared(shown(dispatch=True), PARAMS)
    assert set(workloads_of(kernel)) == {SMALL, LARGE}
    for plateau in JOINT.plateaus:
        assert kernel.defaults(plateau.workload) == JOINT.point(plateau, plateau.simplest).params


def test_the_declaration_leaves_out_what_the_nearest_workloads_say_already(tmp_path, shown):
    workloads = [decode_at(B=batch) for batch in (64, 1, 2, 4, 8)]
    values = {1: 4, 2: 4, 4: 4, 8: 16, 64: 16}
    groups = [[point(0.0, workload, BV=values[workload.B]), point(0.2, workload, BV=8)] for workload in workloads]
    store_sweep(tmp_path, sweep_of({KERNEL: {"BV": [4, 8, 16]}}, *groups))
    kernel = declared(shown(folder=tmp_path, dispatch=True), {"BV": PARAMS["BV"]})
    assert decode_at(B=2) not in workloads_of(kernel)
    assert [kernel.defaults(workload).BV for workload in workloads] == [values[workload.B] for workload in workloads]


def test_the_declaration_says_where_it_comes_from_and_what_one_point_would_cost(shown):
    lines = shown(dispatch=True).splitlines()
    assert lines[0] == f"    # decode-x on NVIDIA H200: {info().run_id}"
    assert lines[-1].strip().startswith("# or for every shape BV=8 WARPS=2: at most 0.4% slower (B=1 qk4_v8)")
    assert all(len(line) <= 120 for line in lines)


def test_the_declaration_holds_text_and_other_heads(tmp_path, shown):
    workload = decode_at(B=3, HQ=2, HV=4, K=64, V=32)
    found = sweep_of({KERNEL: {"MODE": ["fast", "it's"]}}, [point(0.0, workload, MODE="it's"), point(0.1, MODE="fast")])
    store_sweep(tmp_path, found)
    text = shown(folder=tmp_path, dispatch=True)
    kernel = declared(text, {"MODE": Param(default="fast", choices=("fast", "it's"))})
    assert workloads_of(kernel) == {workload: {"MODE": "it's"}}


def test_each_kernel_gets_a_declaration_of_its_own(tmp_path, shown):
    axes = {"decode-x": {"BV": [4, 8]}, "decode-y": {"BV": [4, 8]}}
    groups = [[point(0.0, workload, kernel=name, BV=4 * n)] for n, name in ((1, "decode-x"), (2, "decode-y"))
              for workload in (SMALL, LARGE)]  # fmt: skip
    best = [
        OneForAll(kernel=group[0].kernel, label=group[0].label, regret={SMALL: 0.0, LARGE: 0.0})
        for group in groups[::2]
    ]
    store_sweep(tmp_path, sweep_of(axes, *groups, one_for_all=best))
    text = shown(folder=tmp_path, dispatch=True)
    first, second = re.split(r"(?m)^    # decode-y on .*$", text)
    assert set(map(str, declared(first, PARAMS).kernel.by_shape.values())) == {"{'BV': 4}"}
    assert set(map(str, declared(second, PARAMS).kernel.by_shape.values())) == {"{'BV': 8}"}
    assert "every shape BV=4" in first
    assert "every shape BV=8" in second


@pytest.mark.parametrize("folder", [ONE_PARAM, SEVERAL], ids=["one-param", "several"])
def test_declarations_of_recorded_sweeps_are_taken(shown, folder):
    from gdnbench.catalog.catalog import default_roots, load_catalog

    sweep = read_sweep(folder)
    kernel = declared(
        shown(folder=folder, dispatch=True),
        load_catalog(default_roots()[:1]).entries["decode-triton"].kernel.params,
    )
    for plateau in sweep.plateaus:
        assert kernel.defaults(plateau.workload) == sweep.point(plateau, plateau.simplest).params
    assert read_info(folder).swept


def test_a_run_that_swept_nothing_is_refused(tmp_path, shown):
    store_sweep(tmp_path, JOINT)
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(UsageError, match="is no sweep") as caught:
        shown(folder=tmp_path)
    assert "gdnbench sweep" in caught.value.hint


@pytest.mark.parametrize("form", [{}, {"json": True}, {"dispatch": True}])
def test_a_sweep_that_has_lost_a_measurement_is_refused(stored, shown, form):
    """Whether the description knows of it or not."""
    rows = store_sweep(stored, JOINT)
    (stored / "measurements.csv").write_text(
        "".join((stored / "measurements.csv").read_text().splitlines(keepends=True)[:-1])
    )
    with pytest.raises(RunFormatError, match=r"measurements\.csv"):
        shown(**form)
    store(stored, rows[:-1])
    with pytest.raises(RunFormatError, match=r"measurements\.csv") as caught:
        shown(**form)
    assert caught.value.hint


def test_what_the_stored_sweep_of_infinite_ends_shows_is_finite(shown):
    assert any(math.isinf(each.slower_hi) for each in JOINT.points)
    assert "inf" not in shown()


def test_in_colour_a_point_that_read_faster_than_the_best_is_as_green_as_that(tmp_path, shown, monkeypatch):
    """It left the race by rounds that the best of today was slow in."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor")):
        monkeypatch.setenv(name, value)
    store_sweep(tmp_path, ODD["faster in the rounds it had"])
    assert shown(folder=tmp_path).count("48;2;38;166;91m") == 2


TWO = {"decode-x": {"BV": [4, 8]}, "decode-y": {"WARPS": [2, 4]}}


def rivals(workload, best, others):
    """The final of two kernels at a workload, and the plateaus of one point each that they come from."""
    first = point(0.0, workload, kernel=best[0], **best[1])
    second = point(others[2], workload, others[3], kernel=others[0], **others[1])
    alone = [[first], [replace(second, place=Place.BEST, slower_by=0.0, slower_lo=0.0, slower_hi=0.0)]]
    return (first, second), alone


SMALL_FINAL = rivals(SMALL, ("decode-x", {"BV": 8}), ("decode-y", {"WARPS": 2}, 0.09, Place.SLOWER))
LARGE_FINAL = rivals(LARGE, ("decode-y", {"WARPS": 4}), ("decode-x", {"BV": 8}, 0.001, Place.TIED))
WIDE_HEADS = decode_at(B=2, HQ=16, HV=32)
WIDE_FINAL = rivals(WIDE_HEADS, ("decode-y", {"WARPS": 4}), ("decode-x", {"BV": 4}, 0.004, Place.UNCLEAR))
RACED = replace(
    sweep_of(TWO, *SMALL_FINAL[1], *LARGE_FINAL[1], *WIDE_FINAL[1]),
    finals=(*SMALL_FINAL[0], *LARGE_FINAL[0], *WIDE_FINAL[0]),
)


def test_where_several_kernels_raced_the_declaration_is_a_dispatchers_table(tmp_path, shown):
    store_sweep(tmp_path, RACED)
    document = tomllib.loads(shown(folder=tmp_path, dispatch=True))
    assert document == {
        "h200": {
            "qk4_v8": {
                "source": info().run_id,
                "B1": {"kernel": "decode-x", "BV": 8},
                "B64": {"kernel": "decode-y", "WARPS": 4},
            },
            "qk16_v32": {"source": info().run_id, "B2": {"kernel": "decode-y", "WARPS": 4}},
        }
    }


def test_a_dispatchers_table_says_who_ties(tmp_path, shown):
    store_sweep(tmp_path, RACED)
    rows = {line.partition(" = ")[0]: line for line in shown(folder=tmp_path, dispatch=True).splitlines()}
    assert "#" not in rows["B1"]
    assert rows["B64"].endswith("  # decode-x ties")
    assert rows["B2"].endswith("  # decode-x may tie")


def test_a_printed_table_is_one_that_a_dispatcher_takes(tmp_path, shown):
    store_sweep(tmp_path, RACED)
    (tmp_path / "dispatch.toml").write_text(shown(folder=tmp_path, dispatch=True))
    kernels = {
        "decode-x": TorchKernel(name="decode-x", params={"BV": Param(default=4, choices=(4, 8))}),
        "decode-y": TorchKernel(name="decode-y", params={"WARPS": Param(default=2, choices=(2, 4))}),
    }
    dispatch = read_dispatch(tmp_path / "dispatch.toml", DECODE, kernels)
    for workload in (SMALL, LARGE, WIDE_HEADS):
        best = RACED.final(workload)[0]
        pick = dispatch.pick(workload, "h200")
        assert (pick.kernel, pick.params, pick.source) == (best.kernel, best.params, info().run_id)


def test_text_is_quoted_in_a_dispatchers_table(tmp_path, shown):
    final, alone = rivals(SMALL, ("decode-x", {"MODE": 'a"b'}), ("decode-y", {"WARPS": 2}, 0.1, Place.SLOWER))
    store_sweep(tmp_path, replace(sweep_of({**TWO, "decode-x": {"MODE": ['a"b']}}, *alone), finals=final))
    assert tomllib.loads(shown(folder=tmp_path, dispatch=True))["h200"]["qk4_v8"]["B1"]["MODE"] == 'a"b'


def test_kernels_that_raced_are_shown_beside_each_other_at_each_workload(tmp_path, shown):
    store_sweep(tmp_path, RACED)
    text = shown(folder=tmp_path)
    lines = section(text, "the kernels at B=64 qk4_v8").splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["decode-y", "WARPS=4", "BEST"],
        ["decode-x", "BV=8", "0.10%", "±0.20%", "TIES"],
    ]
    assert max(map(len, text.splitlines()[:-2])) <= 80


def test_one_kernel_that_raced_alone_has_no_rivals_to_show(shown):
    assert "the kernels at" not in shown()


def test_finals_are_stored_and_read_again(tmp_path):
    store_sweep(tmp_path, RACED)
    assert read_sweep(tmp_path) == RACED
    assert read_sweep(SEVERAL).finals == ()


def test_a_final_of_points_that_did_not_race_is_refused():
    with pytest.raises(ValueError, match="did not race there"):
        replace(RACED, finals=(replace(RACED.finals[0], workload=decode_at(B=3)),))


def store_floors(folder):
    """A sweep of a floor: its points are in the role of a floor, and there is no baseline."""
    floor = "decode-floor-copy"
    points = [point(0.0, kernel=floor, WARPS=8), point(0.07, kernel=floor, WARPS=16)]
    rows = [
        measured(case(each.label, Role.FLOOR, kernel=floor, **each.params), 4.0 * (1 + each.slower_by))
        for each in points
    ]
    rows.append(failed(case(f"{floor}:WARPS=1", Role.FLOOR, WARPS=1), Status.BUILD_FAILED, "too few"))
    found = sweep_of({floor: {"WARPS": [1, 8, 16]}}, points)
    store(folder, rows, swept={floor: ["WARPS"]}, baseline="")
    write_sweep(folder, found)


def test_a_sweep_of_a_floor_is_shown_as_one_of_a_kernel(tmp_path, shown):
    store_floors(tmp_path)
    text = flat(shown(folder=tmp_path))
    assert "3 points: decode-floor-copy WARPS=1,8,16" in text
    assert "the best is WARPS=8" in text
    assert "build-failed decode-floor-copy, 1 points (WARPS=1 at B=1 qk4_v8): too few" in text
    assert "A/A" not in text
    rows = list(csv.DictReader(io.StringIO(shown(folder=tmp_path, csv=True))))
    assert [row["place"] for row in rows] == ["best", "slower", ""]
    assert 'Shape(B=1): {"WARPS": 8}' in shown(folder=tmp_path, dispatch=True)
