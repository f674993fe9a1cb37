"""A stored sweep on stdout: the answer, charts and tables in a terminal of 80 columns, JSON, CSV, a declaration."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from committed import RESULTS as RECORDED
from decode_workloads import decode_at
from made import FAILED_POINTS, ODD, RACED, TWO, WIDE_HEADS, rivals
from run_data import info, store
from sweep_data import JOINT, KERNEL, LARGE, SMALL, point, store_sweep, sweep_of

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.load import read_dispatch
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.declaration import Param
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.measurement import Place
from gdnbench.model.workload import Shape
from gdnbench.report.charts.sweep import best_at, leading_params
from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_measurements
from gdnbench.store.tables import read_sweep
from gdnbench.verbs.show_sweep import print_sweep

ONE_PARAM = RECORDED / "20261121-180525-h200-decode-sweep-bv"
SEVERAL = RECORDED / "20261121-180544-h200-decode-sweep-joint"


@pytest.fixture
def stored(tmp_path):
    store_sweep(tmp_path, JOINT, without=FAILED_POINTS)
    return tmp_path


@pytest.fixture
def shown(stored, capsys, monkeypatch):
    def show(columns="80", folder=stored, **form):
        monkeypatch.setenv("COLUMNS", columns)
        print_sweep(folder, **{"json": False, "csv": False, "dispatch": False, **form})
        return capsys.readouterr().out

    return show


DECODE = load_catalog(default_roots()[:1]).ops["decode"]


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


def test_without_a_time_there_is_nothing_to_declare(tmp_path, shown):
    store_sweep(tmp_path, ODD["none"])
    with pytest.raises(UsageError, match="no point"):
        shown(folder=tmp_path, dispatch=True)


@pytest.mark.parametrize("folder", [ONE_PARAM, SEVERAL], ids=["one-param", "several"])
def test_the_points_of_a_stored_sweep_are_its_measurements(folder):
    sweep = read_sweep(folder)
    rows = {(row.case.label, row.case.workload): row for row in read_measurements(folder)}
    for each in sweep.points:
        assert rows[each.label, each.workload].timing.rounds == each.rounds
        assert rows[each.label, each.workload].case.variant.params == each.params


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


def test_the_declaration_holds_text_and_other_heads(tmp_path, shown):
    workload = decode_at(B=3, HQ=2, HV=4, K=64, V=32)
    found = sweep_of({KERNEL: {"MODE": ["fast", "it's"]}}, [point(0.0, workload, MODE="it's"), point(0.1, MODE="fast")])
    store_sweep(tmp_path, found)
    text = shown(folder=tmp_path, dispatch=True)
    kernel = declared(text, {"MODE": Param(default="fast", choices=("fast", "it's"))})
    assert workloads_of(kernel) == {workload: {"MODE": "it's"}}


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


def test_in_colour_a_point_that_read_faster_than_the_best_is_as_green_as_that(tmp_path, shown, monkeypatch):
    """It left the race by rounds that the best of today was slow in."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor")):
        monkeypatch.setenv(name, value)
    store_sweep(tmp_path, ODD["faster"])
    assert shown(folder=tmp_path).count("48;2;38;166;91m") == 2


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


def test_finals_are_stored_and_read_again(tmp_path):
    store_sweep(tmp_path, RACED)
    assert read_sweep(tmp_path) == RACED
    assert read_sweep(SEVERAL).finals == ()


def test_a_final_of_points_that_did_not_race_is_refused():
    with pytest.raises(ValueError, match="did not race there"):
        replace(RACED, finals=(replace(RACED.finals[0], workload=decode_at(B=3)),))
