"""`gdnbench proton` where there is no GPU: what it shows of stored files, and what it refuses."""

import csv
import io
import json

import pytest
from launches_data import store_recording
from proton_data import CUPTI, store

from gdnbench.errors import ExitCode
from gdnbench.machine.gpus import list_gpus

without_gpu = pytest.mark.skipif(bool(list_gpus()), reason="there is a GPU here")


def test_shares_in_the_table_are_those_of_the_trace(command_line, tmp_path):
    _, out, _ = command_line("proton", "--import", store(tmp_path), "--json")
    found = json.loads(out)
    assert sum(row["share"] for row in found["scopes"] if row["name"] != "total") == pytest.approx(1)
    assert found["recording"]["sm_mhz"] == [1979.0, 1981.0]
    assert (found["launches"], found["warps"]) == (3, 16)


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
