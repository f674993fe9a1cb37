"""`gdnbench explain` of kernels of several launches: each is explained, and its share told where it was measured."""

import json
from functools import partial

import pytest
from code_data import OTHER
from launches_data import TOYS, toys
from run_data import measured, store

from gdnbench.errors import ExitCode
from gdnbench.model.case import Case
from gdnbench.store.tables import LaunchRow, write_launches

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
        path, [LaunchRow(case=of.id, function=name, rounds=21, time_us=time) for name, time in functions_us.items()]
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


def test_a_run_of_other_code_is_said_to_be_so(explain, tmp_path):
    _store_run(tmp_path / "none", {"prologue": 9.0, "scan": 27.0}, OTHER)
    assert "in whole calls, of other code: " in " ".join(explain("prefill-triton").split())


@pytest.mark.parametrize("functions_us", [{}, {"scan": 27.0}])
def test_a_run_that_did_not_time_every_launch_tells_no_share(explain, tmp_path, functions_us):
    _store_run(tmp_path / "none", functions_us)
    assert "nothing stored tells what share" in explain("prefill-triton")
