"""`gdnbench proton` where there is no GPU: what it shows of stored files, and what it refuses."""

import csv
import io
import json

import pytest
from launches_data import store_recording
from proton_data import CLOCK32, CUPTI, SCOPES, store

from gdnbench.errors import ExitCode
from gdnbench.machine.gpus import list_gpus

without_gpu = pytest.mark.skipif(bool(list_gpus()), reason="there is a GPU here")


def test_a_stored_recording_is_a_table_within_eighty_columns(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = store(tmp_path).name
    code, out, err = command_line("proton", "--import", name)
    assert (code, err) == (0, "")
    table = out.splitlines()
    assert table[0].startswith("decode-triton  B=1 qk4_v8 BV=16 WARPS=16 STAGES=1  on NVIDIA H200")
    assert [line.split()[0] for line in table[3:11]] == [*SCOPES, "(between)", "total"]
    assert "kernel by CUDA events, cold: 4.400 µs, instrumented 5.400 µs (+23%)" in out
    assert "by CUPTI, cold: 2.050 µs  gdn_decode" in out
    assert table[-1] == "next: gdnbench ncu decode-triton --shape B=1"
    assert all(len(line) <= 80 for line in table if not line.startswith(("trace:", "next:")))


def test_shares_in_the_table_are_those_of_the_trace(command_line, tmp_path):
    _, out, _ = command_line("proton", "--import", store(tmp_path), "--json")
    found = json.loads(out)
    assert sum(row["share"] for row in found["scopes"] if row["name"] != "total") == pytest.approx(1)
    assert found["recording"]["sm_mhz"] == [1979.0, 1981.0]
    assert (found["launches"], found["warps"]) == (3, 16)


def test_csv_has_a_row_a_scope_and_a_row_a_clock(command_line, tmp_path):
    _, out, _ = command_line("proton", "--import", store(tmp_path), "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["name"] for row in rows if row["kind"] == "scope"] == [*SCOPES, "(between)", "total"]
    assert {(row["kind"], row["name"]): row["median_us"] for row in rows if row["kind"] != "scope"} == {
        ("events", "plain"): "4.4",
        ("events", "instrumented"): "5.4",
        ("cupti", "gdn_decode"): "2.05",
    }
    assert {row["B"] for row in rows} == {"1"}


def test_of_several_launches_each_has_its_time_and_a_call_their_sum(command_line, tmp_path):
    stored = store_recording(tmp_path, {"prologue": [10.0, 11.0, 12.0], "scan": [33.0, 30.0, 30.0]})
    document = json.loads(stored.read_text())
    stored.write_text(json.dumps({**document, "entries": ["prologue", "scan"]}))
    code, out, _ = command_line("proton", "--import", stored)
    assert code == 0
    times = [line.split(": ")[1] for line in out.splitlines() if line.startswith("on the GPU by CUPTI")]
    assert times == ["11.000 µs  prologue", "30.000 µs  scan", "42.000 µs  (sum)"]  # of 43, 41 and 42
    assert "of 2 launches" in out
    assert "trace.scope" not in out
    rows = list(csv.DictReader(io.StringIO(command_line("proton", "--import", stored, "--csv")[1])))
    assert {row["name"]: row["median_us"] for row in rows if row["kind"] == "cupti"} == {
        "prologue": "11",
        "scan": "30",
        "(sum)": "42",
    }


def test_a_trace_alone_is_shown_in_cycles(command_line):
    code, out, _ = command_line("proton", "--import", CLOCK32)
    assert code == 0
    assert "avg cycles" in out
    assert "µs" not in out
    assert out.splitlines()[-1] == f"next: gdnbench proton --import {CLOCK32} --csv"


def test_without_scopes_the_times_stand_and_how_to_add_scopes(command_line, tmp_path):
    stored = store(tmp_path, trace="", sm_mhz=(), launches=0, times_us={"plain": [5.0]}, cupti_us={"x" * 90: [2.0]})
    code, out, _ = command_line("proton", "--import", stored)
    assert code == 0
    assert "kernel by CUDA events, cold: 5.000 µs\n" in out
    assert "trace.scope" in out
    assert "instrumented" not in out
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("next:"))


def test_of_a_kernel_reached_through_python_no_scopes_are_asked(command_line, tmp_path):
    stored = store(tmp_path, trace="", sm_mhz=(), launches=0, times_us={"plain": [5.0]}, language="torch")
    code, out, _ = command_line("proton", "--import", stored)
    assert code == 0
    assert "whole launches" in out
    assert "trace.scope" not in out


def test_notes_stand_under_the_table(command_line, tmp_path):
    _, out, _ = command_line("proton", "--import", store(tmp_path, notes=("the SM clock went from 1 to 2 MHz",)))
    assert "warning: the SM clock went from 1 to 2 MHz" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--import", "none.json"), ExitCode.PROFILER, "none.json"),
        (("--import", CUPTI), ExitCode.PROFILER, "not a trace of Proton's instrumentation"),
        (("decode-triton", "--shape", "B=1,8"), ExitCode.USAGE, "2 workloads"),
        (("decode-triton", "--shape", "B=256"), ExitCode.USAGE, "smaller B than 256"),
        (("decode-none",), ExitCode.USAGE, "no kernel decode-none"),
        (("decode-triton", "--launches", "0"), ExitCode.USAGE, "launches"),
    ],
)
def test_what_cannot_be_shown_says_why(command_line, arguments, code, said):
    found, out, err = command_line("proton", *arguments)
    assert found == code
    assert said in " ".join(err.split())
    assert not out


@without_gpu
def test_without_a_gpu_it_says_what_works(command_line):
    code, out, err = command_line("proton", "decode-triton")
    assert code == ExitCode.ENVIRONMENT
    assert "gdnbench proton --import" in err
    assert not out
