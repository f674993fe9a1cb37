"""Charts of stored runs: the points and bounds of a roofline, which kernels are shown, and what is refused."""

import json
import math
from dataclasses import replace

import pytest
from committed import RESULTS
from history_data import BASELINE, FLOOR, KERNEL, PEER, TIMES, store_run
from report_data import Elements

from gdnbench.catalog.catalog import op_named
from gdnbench.errors import UsageError
from gdnbench.machine.gpus import spec_of
from gdnbench.model.status import Role
from gdnbench.report.charts import theme
from gdnbench.report.charts.roofline import points_of, read_roof, short_names
from gdnbench.report.charts.selection import chosen_rows
from gdnbench.store.info import read_info
from gdnbench.verbs.html.report import write_report

FP8 = "20261124-172052-h200-fp8-gemm-pos-study"  # bound by copying at one workload, by FLOPs at others
PREFILL = "20261126-110921-h200-prefill-processes"  # has no copying floor
DECODE = "20261122-215641-h200-decode-processes"
UPCAST = "20261125-014224-h200-nvfp4-gemm-upcast"  # numbers of a precision that the GPU lacks
FIRST = "20261121-185458-h200-decode-main"  # of schema 1


def stored(name):
    return read_info(RESULTS / name), chosen_rows(RESULTS / name, "all")


@pytest.mark.parametrize("name", [FP8, PREFILL, DECODE, UPCAST])
def test_a_point_is_the_declared_work_over_the_stored_time(name):
    info, rows = stored(name)
    op = op_named(info.op)
    times = {(row.case.label, row.case.workload): row.timing for row in rows if row.role.does_the_work}
    points = points_of(rows)
    assert {(point.kernel, point.workload) for point in points} == times.keys()
    for point in points:
        timing, workload = times[point.kernel, point.workload], op.workloads.completed(point.workload)
        flops = sum(op.flops(workload).values())
        assert point.tflops == pytest.approx(flops / timing.time_us / 1e6, rel=1e-4)
        assert point.intensity == pytest.approx(flops / op.traffic_bytes(workload), rel=1e-4)
        if timing.bound:
            assert point.tflops / point.bound_tflops == pytest.approx(timing.sol)


@pytest.mark.parametrize(
    ("name", "precision", "memory"),
    [
        (FP8, "fp8", "4128 GB/s, copying floor at M=928256, measured by kernel time"),
        (DECODE, "fp32", "3757 GB/s, copying floor at B=64 qk4_v8, measured by kernel time"),
        (UPCAST, "fp16", "2672 GB/s, copying floor at M=128 N=7168 K=16384, measured by stream time"),
        (PREFILL, "bf16", "4353 GB/s, reading, measured by gdnbench doctor --latency; no copying floor was measured"),
    ],
)
def test_the_roof_says_which_bound_was_measured_and_which_is_the_data_sheets(name, precision, memory):
    info, rows = stored(name)
    roof, peak = read_roof(info, rows), spec_of("h200").most_tflops(precision)
    assert roof.lines[0] == f"memory: {memory}"
    assert roof.compute.rate == peak
    assert f"{precision}, data sheet of the H200 SXM 141 GB at 1980 MHz, not measured" in roof.lines[1]
    assert roof.balance == pytest.approx(1e3 * peak / roof.memory.rate)
    corners = roof.corners(points_of(rows))
    assert list(corners.values())[1:] == pytest.approx([peak, peak])
    floors = [row.timing.bandwidth_gbs for row in rows if row.role is Role.FLOOR and row.nbytes]
    assert roof.memory.rate == pytest.approx(max(floors, default=4353), rel=1e-3)


@pytest.mark.parametrize(
    ("gpu", "op", "memory", "compute"),
    [
        ("x9", "decode", "copying floor at B=64", "unknown: there is no data sheet of x9"),
        ("h200", "absent", "copying floor at B=64", "unknown: no op absent is here that declares the work"),
        ("h200", "decode-pool", "copying floor at B=64", "unknown: no op decode-pool is here"),
    ],
)
def test_a_bound_that_is_unknown_is_named_and_the_other_is_drawn(gpu, op, memory, compute):
    info, rows = stored(DECODE)
    roof = read_roof(replace(info, gpu=gpu, op=op), rows)
    assert memory in roof.lines[0]
    assert compute in roof.lines[1]
    assert len(roof.lines) == 2
    assert roof.balance == 0.0
    (low, start), (high, end) = roof.corners(points_of(rows)).items()
    assert end / start == pytest.approx(high / low)
    assert math.isfinite(end)


def test_without_any_bound_or_any_work_there_is_no_roofline():
    info, rows = stored(DECODE)
    with pytest.raises(UsageError, match="has no roof to draw") as caught:
        read_roof(replace(info, gpu="x9"), [row for row in rows if row.role is not Role.FLOOR])
    assert "no copying floor was measured, and there is no data sheet of x9" in caught.value.hint
    for found in (stored(FIRST), (info, [row for row in rows if row.role is Role.FLOOR])):
        with pytest.raises(UsageError, match="no FLOPs and bytes"):
            read_roof(*found)


def test_terms_that_all_workloads_have_are_left_out_of_their_names():
    _, rows = stored(DECODE)
    workloads = list(dict.fromkeys(row.case.workload for row in rows))
    assert list(short_names(workloads).values()) == ["B=1", "B=8", "B=64"]
    assert list(short_names(workloads[:1]).values()) == ["B=1 qk4_v8"]


@pytest.mark.parametrize("chosen", ["all", "fp8-gemm-pos-tma"])
def test_a_roofline_is_drawn_into_a_file(command_line, tmp_path, chosen):
    drawn = tmp_path / "roofline.svg"
    code, _, err = command_line("show", RESULTS / FP8, "--chart", "roofline", "-k", chosen, "-o", drawn)
    assert (code, "drawn into" in err) == (0, True)
    text = drawn.read_text()
    for word in ("4128 GB/s, copying floor, measured", "2141 TFLOP/s fp8, data sheet", "M=928256", "fp8-gemm-pos-tma"):
        assert word in text
    assert ("fp8-gemm-pos-triton" in text) is (chosen == "all")
    code, _, err = command_line("show", RESULTS / FP8, "--chart", "roofline", "-k", "*-floor-copy", "-o", drawn)
    assert code == 2
    assert "a floor computes nothing" in err


@pytest.mark.parametrize("name", [FP8, PREFILL])
def test_the_page_has_a_roofline_that_the_library_compiles(tmp_path, name):
    import altair
    import vl_convert

    write_report([RESULTS / name], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    spec = json.loads(text.partition('data-chart="run-1-roofline">')[2].partition("</script>")[0])
    assert vl_convert.vegalite_to_vega(spec, vl_version="6.4")["marks"]
    assert altair.LayerChart.from_dict(spec)
    assert "Roofline, by kernel time" in Elements(text).seen


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
