"""A sweep: on the CPU, and stored ones on stdout, as JSON, CSV and a declaration."""

from pathlib import Path

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from faults import REPOSITORY, Gdnbench
from made import FAILED_POINTS, ODD, RACED, WIDE_HEADS
from run_data import info, store
from sweep_data import JOINT, KERNEL, LARGE, SMALL, point, store_sweep, sweep_of

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.load import read_dispatch
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.declaration import Param
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.workload import Shape
from gdnbench.verbs.sweep import print_sweep


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


DECODE = CATALOG.ops["decode"]


def test_without_a_time_there_is_nothing_to_declare(tmp_path, shown):
    store_sweep(tmp_path, ODD["none"])
    with pytest.raises(UsageError, match="no point"):
        shown(folder=tmp_path, dispatch=True)


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


def test_a_run_that_swept_nothing_is_refused(tmp_path, shown):
    store_sweep(tmp_path, JOINT)
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(UsageError, match="is not a sweep") as caught:
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


TUNABLE = REPOSITORY / "tests" / "tunable"
# A margin so wide that a busy machine does not tell the baseline apart from itself, which is exit code 4.
SWEEP = ("sweep", "test-tunable", "--gpu", "cpu", "--baseline", "decode-reference", "--margin", "0.3", "--json", "-q")
BUDGET = ("--budget", "9s", "--samples", "10")  # 6 s of it are for the start of a worker


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """One sweep over all delays, and what it printed."""
    bench = Gdnbench(tmp_path_factory.mktemp("sweep"), (TUNABLE,), in_process=True)
    done = bench(*SWEEP, "--out", str(bench.results), *BUDGET, "-p", "DELAY", "-p", "WIDE=1")
    return bench, done


@pytest.mark.slow
def test_a_sweep_finds_the_best_point(swept):
    _, done = swept
    assert done.code == 0, done.err
    (plateau,) = done.document["sweep"]["plateaus"]
    assert plateau["kernel"] == "test-tunable"
    assert "test-tunable:DELAY=2:WIDE=1" in {*plateau["tied"], *plateau["unclear"]}
    points = {point["label"]: point for point in done.document["sweep"]["points"]}
    assert set(points) == {f"test-tunable:DELAY={delay}:WIDE=1" for delay in (2, 3, 4)}
    assert points["test-tunable:DELAY=2:WIDE=1"]["place"] != "slower"


@pytest.mark.slow
def test_show_prints_the_same_again(swept):
    bench, done = swept
    assert bench("show", "--out", str(bench.results), "--json").document == done.document
    table = bench("show", "--out", str(bench.results))
    assert table.code == 0
    assert "sweep on the CPU" in table.out
    assert "99 is more than there is" in table.out
