"""`gdnbench ncu --for-model` on recorded profiles: what it says, and that it stays small."""

import json

import pytest
from committed import PROFILES
from launches_data import TOYS
from ncu_data import DATA, V1, V4, unpack_report, with_value

from gdnbench.errors import ExitCode
from gdnbench.profile.ncu.store import read_profiles, write_profiles
from gdnbench.render.digest import LIMIT_BYTES

RECORDED = [*sorted(PROFILES.glob("ncu/*/*.csv")), *sorted(DATA.glob("*.csv.gz"))]
[PREFILL] = PROFILES.glob("ncu/prefill-v4/*.csv")


@pytest.fixture
def run(command_line, monkeypatch):
    """Runs `gdnbench ncu --for-model --import ARGUMENTS` without a GPU; gives exit code, documents and stderr."""
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(TOYS))

    def call(*arguments):
        code, out, err = command_line("ncu", "--for-model", "--import", *arguments)
        assert all(len(line.encode()) < LIMIT_BYTES for line in out.splitlines())
        return code, [json.loads(line) for line in out.splitlines()], err

    return call


def facts(document, rows="facts"):
    return {name: found for row in document[rows] for name, found in row.items()}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_largest_comes_first_of_every_kind_that_is_ranked(run, path):
    code, documents, _ = run(path)
    assert code == ExitCode.OK
    for document in documents:
        found = facts(document)
        assert {"time", "stalls_cycles_per_instruction", "bytes"} <= set(found)
        for name in ("cycles_pct", "stalls_cycles_per_instruction", "bytes", "pipes_pct_of_peak", "warp_instructions"):
            values = list(found.get(name, {}).values())
            assert values == sorted(values, reverse=True), name


def test_a_profile_and_itself_have_nothing_between_them_and_two_have(run, tmp_path):
    _, [document], _ = run(V4, "--diff", V4)
    assert document["changed"].startswith("0 of ")
    assert not document.get("changes")
    _, [document], _ = run(V1, "--diff", V4)
    before, after, change, verdict = facts(document, "changes")["time"]["duration_us"]
    assert (verdict == "better") == (after < before) == change.startswith("-")
    report = unpack_report(tmp_path)
    assert run(report)[1][0]["launches"] == 3
    assert "than the launches of each spread" in run(report, "--diff", report)[1][0]["changed"]


def test_what_ncu_could_not_read_is_left_out_and_exits_as_the_table_does(run, tmp_path):
    profile, path = read_profiles(V1)[0], tmp_path / "nan.csv"
    names = ("dram__bytes_read.sum", "lts__throughput.avg.pct_of_peak_sustained_elapsed", "smsp__cycles_active.avg")
    for name in names:
        profile = with_value(profile, name, float("nan"))
    write_profiles(path, [profile])
    code, [document], err = run(path)
    assert code == ExitCode.PROFILER
    assert "ncu could not read" in err
    found = facts(document)
    assert "cycles_pct" not in found  # where they went is not known without one of the counters
    assert "DRAM read" not in found["bytes"]
    assert not {"dram_read_bytes", "l2_pct"} & set(found["memory"])


def test_a_report_that_has_next_to_nothing(run, tmp_path):
    path, profile = tmp_path / "few.csv", read_profiles(V1)[0]
    kept = {name: metric for name, metric in profile.metrics.items() if name == "gpu__time_duration.sum"}
    write_profiles(path, [profile.__class__(**{**vars(profile), "metrics": kept})])
    _, [document], _ = run(path)
    assert document["facts"] == [{"time": {"duration_us": 3.68}}]
    assert document["bound_by"].startswith("not known")
