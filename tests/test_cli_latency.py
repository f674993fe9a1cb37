"""`gdnbench doctor --latency`: what a worker measured is printed, stored and quoted; what it could not is named."""

import csv
import io
import json
from dataclasses import replace

import pytest
from calibration_data import H200
from diagnose_data import copy_run

from gdnbench.calibrate import latency
from gdnbench.errors import ExitCode, LeftOutWarning, RunFormatError
from gdnbench.process.channel import encode
from gdnbench.store import latencies

TRIP = latencies.Cost(
    group="trip", what=latencies.DRAM, ns=600.0, least_ns=590.0, most_ns=650.0, cycles=1188.0, sm_mhz=1980.0
)
LAUNCH = latencies.Cost(
    group="launch", what="each further one", ns=900.0, least_ns=890.0, most_ns=910.0, cycles=None, sm_mhz=None
)
RATE = latencies.ReadRate(
    lane_bytes=16, sms=132, bytes_per_s=4e12, least_bytes_per_s=3.9e12, most_bytes_per_s=4.1e12, sm_mhz=1980.0
)
PEAK = latencies.Peak(
    precision="bf16", flops_per_s=8e14, least_flops_per_s=7.9e14, most_flops_per_s=8.1e14, sm_mhz=1647.0
)
MISSING = latencies.Unmeasured(what="cluster of 2 blocks of 128", why="this GPU has no clusters")
FOUND = latencies.Latencies(
    timestamp="2026-11-27T03:04:05+00:00",
    host="rack-1",
    gpu="h200",
    gpu_name="NVIDIA H200",
    uuid=H200.uuid,
    driver=None,
    sms=132,
    l2_bytes=62_914_560,
    pages=8192,
    costs=[TRIP, LAUNCH],
    rates=[RATE],
    unmeasured=[MISSING],
    peaks=[PEAK],
)


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Stands in for the worker's module with a script that sends messages as the worker does."""
    modules = tmp_path / "modules"
    modules.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setattr(latency, "WORKER", "fake_probe")
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda *_: (H200,))

    def sends(*messages, end=""):
        lines = [f"channel.send(decode({encode(each)!r}, _KINDS))" for each in messages]
        begin = """
import os, sys
from gdnbench.calibrate.latency import _KINDS
from gdnbench.process.channel import Channel, decode
channel = Channel(int(sys.argv[-1]))
"""
        (modules / "fake_probe.py").write_text("\n".join([begin, *lines, end]))

    return sends


def stored(folder, profiles="profiles"):
    (path,) = (folder / profiles / "latency" / "h200").iterdir()
    return latencies.read_latencies(path)


def test_what_is_measured_is_stored_where_the_user_wants_it(worker, command_line, tmp_path):
    worker(TRIP)
    code, _, err = command_line("doctor", "--latency", "--profiles", "elsewhere")
    assert code == 0, err
    assert stored(tmp_path, "elsewhere").costs == [TRIP]
    assert "stored in elsewhere/latency/h200/" in " ".join(err.split())


def test_what_is_measured_is_printed_and_stored(worker, command_line, tmp_path):
    worker(
        latency.ProbedGpu(132, 62_914_560, 8192), latency.ProbeBegun(latencies.DRAM), TRIP, LAUNCH, RATE, PEAK, MISSING
    )
    code, out, err = command_line("doctor", "--latency")
    assert code == 0, err
    assert "the NVIDIA H200" in out
    assert "600.0" in next(line for line in out.splitlines() if line.startswith("DRAM"))
    assert "4,000" in out
    assert "cluster of 2 blocks of 128: not measured: this GPU has no clusters" in " ".join(out.split())
    kept = stored(tmp_path)
    assert (kept.costs, kept.rates, kept.unmeasured) == ([TRIP, LAUNCH], [RATE], [MISSING])
    assert kept.peaks == [PEAK]
    peak = next(line for line in out.splitlines() if line.startswith("bf16"))
    assert peak.split() == ["bf16", "800", "1,647", "891", "90%"]  # 989.5 TFLOP/s at 1,830 MHz are 891 at 1,647
    assert (kept.sms, kept.pages, kept.gpu) == (132, 8192, "h200")


def test_a_worker_that_dies_keeps_what_it_measured_and_says_where_it_ended(worker, command_line, tmp_path):
    worker(TRIP, latency.ProbeBegun("grid of 132"), end="print('an illegal address', file=sys.stderr)\nos._exit(3)")
    code, out, _ = command_line("doctor", "--latency")
    assert code == 0
    assert "grid of 132: not measured: the process died (exit code 3): an illegal address" in " ".join(out.split())
    assert stored(tmp_path).costs == [TRIP]


def test_a_worker_that_measures_nothing_is_an_error_and_stores_nothing(worker, command_line, tmp_path):
    worker(end="raise ImportError('no torch')")
    code, out, err = command_line("doctor", "--latency")
    assert (code, out) == (ExitCode.ENVIRONMENT, "")
    assert "no torch" in " ".join(err.split())
    assert not (tmp_path / "profiles").exists()


def test_a_worker_that_hangs_is_ended(worker):
    worker(TRIP, latency.ProbeBegun("L2"), end="import time\ntime.sleep(60)")
    found = latency.measure_latencies(H200, lambda _: None, limit_s=3)
    assert found.costs == [TRIP]
    assert found.unmeasured == [latencies.Unmeasured(what="L2", why="it did not end in 3 s")]


def test_stored_costs_are_printed_again_without_a_gpu_in_every_form(command_line, monkeypatch, tmp_path):
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda *_: ())
    path = latencies.latency_path(tmp_path, "h200", FOUND.timestamp)
    assert path == tmp_path / "latency" / "h200" / "20261127-030405.json"
    latencies.write_latencies(path, FOUND)
    again = ("doctor", "--latency", "--import", path)
    assert "DRAM" in command_line(*again)[1]
    assert json.loads(command_line(*again, "--json")[1])["costs"][0]["ns"] == 600.0
    trip, launch, read, peak = csv.DictReader(io.StringIO(command_line(*again, "--csv")[1]))
    assert (trip["group"], trip["what"], trip["ns"], trip["bytes_per_s"]) == ("trip", "DRAM", "600", "")
    assert (launch["group"], launch["cycles"]) == ("launch", "")
    assert (peak["group"], peak["precision"], peak["flops_per_s"], peak["ns"]) == ("peak", "bf16", "8e+14", "")
    assert (read["group"], read["lane_bytes"], read["bytes_per_s"], read["ns"]) == ("read", "16", "4e+12", "")


def test_the_newest_readable_costs_of_a_gpu_model_speak_for_it(tmp_path):
    assert latencies.newest_latencies(tmp_path, "h200") is None
    older = replace(FOUND, timestamp="2026-11-26T00:00:00+00:00", costs=[])
    for each in (older, FOUND):
        latencies.write_latencies(latencies.latency_path(tmp_path, "h200", each.timestamp), each)
    assert latencies.newest_latencies(tmp_path, "h200") == FOUND
    assert latencies.newest_latencies(tmp_path, "h100") is None
    latencies.latency_path(tmp_path, "h200", FOUND.timestamp).write_text('{"schema": 1}')
    with pytest.warns(LeftOutWarning, match="missing required field"):
        assert latencies.newest_latencies(tmp_path, "h200") == older


@pytest.mark.parametrize("change", [{"ns": 0.0}, {"ns": float("nan")}, {"group": "trap"}, {"what": "a\nb"}])
def test_costs_that_cannot_be_are_refused(tmp_path, change):
    path = tmp_path / "costs.json"
    latencies.write_latencies(path, FOUND)
    document = json.loads(path.read_text())
    document["costs"][0] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(RunFormatError):
        latencies.read_latencies(path)


@pytest.fixture
def explain(command_line, monkeypatch, tmp_path):
    """Explains decode-v9 at B=1 by a run on an H200 that has CUPTI's times, with what is stored of such a GPU."""
    monkeypatch.setattr("gdnbench.diagnose.gather.list_gpus", tuple)
    monkeypatch.chdir(tmp_path)
    copy_run(tmp_path / "results", "20261122-215641-h200-decode-processes")

    def call(found, *more):
        if found:
            latencies.write_latencies(latencies.latency_path(tmp_path / "profiles", "h200", FOUND.timestamp), found)
        code, out, err = command_line("explain", "decode-v9", "--shape", "B=1", *more)
        assert code == 0, err
        return out

    return call


def test_explain_says_how_many_trips_a_kernels_own_time_has_room_for(explain):
    document = json.loads(explain(FOUND, "--json"))
    kernel_us = document["evidence"]["run"]["kernel_us"]
    assert 1.5 < kernel_us < 2.5
    assert document["dram_trips"] == pytest.approx(1e3 * kernel_us / 600.0)
    text = " ".join(explain(FOUND).split())
    assert f"has room for {document['dram_trips']:.1f} trips to DRAM in a row, 600 ns on the NVIDIA H200" in text


@pytest.mark.parametrize("found", [None, replace(FOUND, costs=[LAUNCH])])
def test_a_trip_that_was_not_measured_is_not_quoted(explain, found):
    assert json.loads(explain(found, "--json"))["dram_trips"] is None
    assert "trips to DRAM" not in explain(found)


@pytest.mark.gpu
def test_on_a_gpu_what_is_farther_takes_longer(command_line, tmp_path):
    code, out, err = command_line("doctor", "--latency", "--json", "--profiles", tmp_path)
    assert code == 0, err
    document = json.loads(out)
    ns = {cost["what"]: cost["ns"] for cost in document["costs"]}
    order = ["shared memory", "L1", "L2, nearest quarter of lines", "L2, farthest quarter of lines", latencies.DRAM]
    times = [ns[what] for what in order]
    assert times == sorted(times)
    assert ns["L2, nearest quarter of lines"] <= ns["L2"] <= ns["L2, farthest quarter of lines"]
    assert ns["L2"] < ns["L2, cold translation"] < ns["DRAM, cold translation"]
    assert ns["each further one"] < ns["empty kernel, event to event"] < 10_000
    rates = {(rate["lane_bytes"], rate["sms"]): rate["bytes_per_s"] for rate in document["rates"]}
    assert rates[16, 1] < rates[16, 2] < rates[16, document["sms"]]
    assert latencies.newest_latencies(tmp_path, document["gpu"]) is not None
