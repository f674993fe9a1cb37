"""`gdnbench explain` of kernels of several launches: each is explained, and its share told where it was measured."""

import json
from functools import partial

import pytest
from code_data import OTHER
from launches_data import TOYS, store_profile, store_recording, toys
from run_data import measured, store

from gdnbench.errors import ExitCode
from gdnbench.model.case import Case
from gdnbench.store.builds import LaunchRow, write_launches

pytestmark = pytest.mark.slow


@pytest.fixture
def explain(command_line, monkeypatch, tmp_path):
    """Runs `gdnbench explain ARGUMENTS` without a GPU, and gives what it prints; no runs are stored."""
    monkeypatch.setattr("gdnbench.diagnose.gather.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(TOYS))
    run = partial(command_line, "explain", "--quiet", "--profiles", tmp_path, "--out", tmp_path / "none")

    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, err) == (ExitCode.OK, "")
        return out

    return call


def below(out, entry):
    """The part of the text that is of a launch."""
    [part] = [part for part in out.split("\n\n") if part.startswith(entry)]
    return out[out.index(part) :]


def test_without_a_profile_each_launch_is_explained_by_its_code_and_no_share_is_guessed(explain, tmp_path):
    out = explain("gemm-split")
    assert "launches: partial_sums, add_sums; nothing stored tells what share of the time" in out
    assert "launches' time" not in out
    assert out.index("\npartial_sums\ncode    sm_90, ") < out.index("\nadd_sums\ncode    sm_90, ")
    assert "registers, 48 blocks of 2 warps on 132 SMs" in below(out, "add_sums")
    assert out.endswith(f"next: gdnbench ncu gemm-split --shape M=64 --profiles {tmp_path}\n")
    document = json.loads(explain("gemm-split", "--json"))
    assert [launch["entry"] for launch in document["launches"]] == ["partial_sums", "add_sums"]
    assert all(launch["share"] is launch["time_us"] is None for launch in document["launches"])
    assert document["evidence"]["launch_times"] is None


def test_a_profile_tells_each_launchs_share_and_its_causes_by_its_own_counters(explain, tmp_path):
    path = store_profile(tmp_path)
    document = json.loads(explain("gemm-split", "--json"))
    first, second = document["launches"]
    assert (first["entry"], second["entry"]) == ("partial_sums", "add_sums")
    assert first["share"] + second["share"] == pytest.approx(1)
    assert first["share"] == pytest.approx(first["time_us"] / (first["time_us"] + second["time_us"]))
    assert first["findings"][0]["rule"] == "too_few_warps"  # of decode-v1, whose counters these are
    assert (first["launch"]["threads"], second["launch"]["threads"]) == (32, 256)
    assert document["findings"] == []
    times = document["evidence"]["launch_times"]
    assert (times["clock"], times["path"], times["code"]) == ("ncu", str(path), "current")
    out = explain("gemm-split")
    assert f"partial_sums  {first['share']:.0%} of the launches' time" in out
    assert f"sum           {first['time_us'] + second['time_us']:.2f}" in out
    assert "1. too few warps in flight  (" in below(out, "partial_sums  ")
    assert "% of its cycles)" in out
    assert str(path) in out
    assert max(len(line) for line in out.splitlines() if "/" not in line and "try:" not in line) <= 80


def test_what_is_next_is_for_the_launch_that_takes_the_most_which_stands_first(explain, tmp_path):
    store_profile(tmp_path, functions={"partial_sums": "decode-v4-B1", "add_sums": "decode-v1-B1"})
    document = json.loads(explain("gemm-split", "--json"))
    first, second = document["launches"]
    assert (first["entry"], second["entry"]) == ("add_sums", "partial_sums")
    assert first["share"] > second["share"]
    assert document["next"] == first["findings"][0]["experiment"]["command"]
    assert explain("gemm-split").endswith(f"next: {document['next']}\n")


def test_a_profile_that_lacks_a_launch_tells_no_share_and_the_code_tells_of_that_launch(explain, tmp_path):
    store_profile(tmp_path, functions={"add_sums": "decode-v4-B1"})
    document = json.loads(explain("gemm-split", "--json"))
    first, second = document["launches"]
    assert (first["entry"], first["evidence"]["arch"], first["account"], first["share"]) == (
        "partial_sums",
        "sm_90",
        None,
        None,
    )
    assert second["evidence"]["function"] == "add_sums"
    assert document["next"] == f"gdnbench ncu gemm-split --shape M=64 --profiles {tmp_path}"


def test_counters_of_other_code_are_told_as_that(explain, tmp_path):
    store_profile(tmp_path, source=OTHER)
    out = explain("gemm-split")
    assert out.count("of other code: gemm-split's sources have changed since") == 1
    assert "% of its cycles, of other code)" in out
    assert "comes from DRAM there, of other code: " in " ".join(out.split())
    assert f"next: gdnbench ncu gemm-split --shape M=64 --profiles {tmp_path}\n" in out


def test_times_of_whole_calls_by_cupti_come_before_ncus_of_single_launches(explain, tmp_path):
    path = store_recording(tmp_path, {"prologue": [10.0, 11.0, 12.0], "scan": [33.0]})
    document = json.loads(explain("prefill-triton", "--json"))
    assert [(launch["entry"], launch["share"]) for launch in document["launches"]] == [
        ("scan", pytest.approx(0.75)),
        ("prologue", pytest.approx(0.25)),
    ]
    assert (document["evidence"]["launch_times"]["clock"], document["evidence"]["launch_times"]["path"]) == (
        "cupti",
        str(path),
    )
    out = explain("prefill-triton")
    assert f"by CUPTI, in whole calls: {path}" in " ".join(out.split())
    assert out.index("scan  75% of the launches' time") < out.index("prologue  25% of the launches' time")


def _store_run(folder, functions_us, source=None):
    """A run of prefill-triton, of the code as it is now unless told otherwise."""
    entry = toys().entries["prefill-triton"]
    variant = entry.at(entry.default, entry.op.default)
    of = Case(variant, entry.op.default)
    path = folder / "20260103-030405-h200-prefill"
    path.mkdir(parents=True)
    sources = {"prefill-triton": source or entry.source_hash()}
    more = {"run_id": path.name, "op": "prefill", "workloads": entry.op.workloads, "sources": sources}
    store(path, [measured(of, 40.0)], **more)
    write_launches(
        path,
        [LaunchRow(case=of.id, function=name, rounds=21, time_us=time) for name, time in functions_us.items()],
    )
    return path


def test_a_run_with_cupti_tells_the_shares(explain, tmp_path):
    path = _store_run(tmp_path / "none", {"prologue": 9.0, "scan": 27.0})
    document = json.loads(explain("prefill-triton", "--json"))
    assert [(each["entry"], each["share"]) for each in document["launches"]] == [("scan", 0.75), ("prologue", 0.25)]
    assert document["evidence"]["launch_times"]["path"] == str(path / "launches.csv")
    assert not {"functions_us", "folder"} & document["evidence"]["run"].keys()
    out = explain("prefill-triton")
    assert f"{path.name}: 40.000 µs" in out
    assert "by CUPTI, in whole calls: " in " ".join(out.split())


def test_a_run_of_other_code_yields_to_a_profile_of_this_one(explain, tmp_path):
    _store_run(tmp_path / "none", {"prologue": 9.0, "scan": 27.0}, OTHER)
    assert "in whole calls, of other code: " in " ".join(explain("prefill-triton").split())
    path = store_recording(tmp_path, {"prologue": [30.0], "scan": [10.0]})
    assert json.loads(explain("prefill-triton", "--json"))["evidence"]["launch_times"]["path"] == str(path)


@pytest.mark.parametrize("functions_us", [{}, {"scan": 27.0}])
def test_a_run_that_did_not_time_every_launch_tells_no_share(explain, tmp_path, functions_us):
    _store_run(tmp_path / "none", functions_us)
    assert "nothing stored tells what share" in explain("prefill-triton")


def test_a_recording_of_fewer_launches_tells_no_share(explain, tmp_path):
    store_recording(tmp_path, {"scan": [33.0]})
    assert "nothing stored tells what share" in explain("prefill-triton")


def test_a_named_file_is_what_tells_the_shares(explain, tmp_path):
    store_recording(tmp_path, {"partial_sums": [1.0], "add_sums": [99.0]}, label="gemm-split")
    path = store_profile(tmp_path / "elsewhere")
    times = json.loads(explain("gemm-split", "--json", "--from", path))["evidence"]["launch_times"]
    assert (times["clock"], times["path"]) == ("ncu", str(path))
    assert json.loads(explain("gemm-split", "--json"))["evidence"]["launch_times"]["clock"] == "cupti"


@pytest.mark.parametrize("arguments", [("--json",), ("--csv",)])
def test_a_kernel_of_one_launch_has_no_field_of_launches(explain, arguments):
    out = explain("gemm-cuda", *arguments)
    assert '"launches"' not in out
    assert "launch_share" not in out
    assert '"launch_times"' not in out


def test_a_damaged_recording_is_left_out_with_a_warning(explain, tmp_path):
    path = store_recording(tmp_path, {"prologue": [11.0], "scan": [33.0]})
    path.write_text(path.read_text()[:-40])
    out = explain("prefill-triton")
    assert f"warning: a recording is left out: {path}" in " ".join(out.split())
    assert "nothing stored tells what share" in out
