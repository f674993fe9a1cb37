"""What is found of a kernel, and what is said where nothing is."""

import shutil
from pathlib import Path

import pytest
from decode_workloads import decode_at
from diagnose_data import copy_run, kernels, recorded, recording
from run_data import case, measured, store

from gdnbench.diagnose.gather import Question, gather
from gdnbench.errors import BuildError, UsageError
from gdnbench.inspect.compiled import FailedBuild
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Role
from gdnbench.process.events import ignore
from gdnbench.profile.ncu.store import write_profiles

H200 = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0), sms=132)
B200 = Gpu(0, "NVIDIA B200", "GPU-1", (10, 0), sms=148)
RUN = "20261121-185458-h200-decode-main"


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """Gathers, on a machine with the GPUs given; folders are empty unless given."""

    def call(label="decode-v1", *, gpus=(), **told):
        monkeypatch.setattr("gdnbench.diagnose.gather.list_gpus", lambda: gpus)
        empty = {"op": "decode", "axes": "", "gpu": "auto", "file": None}
        folders = {"profiles": tmp_path / "none", "results": tmp_path / "none"}
        return gather(kernels(), Question(label, **{**empty, **folders, **told}), ignore)

    return call


@pytest.fixture
def profiles(tmp_path):
    """A folder with profiles of decode-v1 at B=1: an old and a new one of an H200, and one of a B200."""
    folder = tmp_path / "profiles" / "ncu" / "decode-v1"
    folder.mkdir(parents=True)
    for stem in ("20261120-100000-h200", "20261121-100000-h200", "20261122-100000-b200"):
        write_profiles(folder / f"{stem}-B1-qk4_v8.csv", [one.profile for one in recorded("decode-v1-B1")])
    return tmp_path / "profiles"


@pytest.fixture
def runs(tmp_path):
    """A folder with one run."""
    return copy_run(tmp_path / "results", RUN).parent


def test_a_file_tells_its_kernel_and_workload(ask):
    evidence = ask("decode-v4", file=recording("decode-v4-B64"))
    assert (evidence.workload, evidence.profile.function, evidence.compiled) == (decode_at(B=64), "gdn_decode_v4", None)


def test_beside_counters_the_code_tells_when_loads_issue(ask):
    evidence = ask("decode-v4", file=recording("decode-v4-B1"))
    assert (len(evidence.milestones.early_loads), evidence.dependent_loads) == (2, 2)


def test_counters_answer_for_a_kernel_that_does_not_build(ask, monkeypatch):
    failed = FailedBuild(None, "sm_90", BuildError("no"))
    monkeypatch.setattr("gdnbench.diagnose.gather.build_subjects", lambda *_: (failed,))
    evidence = ask("decode-v4", file=recording("decode-v4-B1"))
    assert (evidence.milestones, evidence.dependent_loads) == (None, 0)
    with pytest.raises(BuildError):
        ask("decode-v4")


def test_of_several_launches_the_typical_one_speaks(ask):
    evidence = ask(file=recording("decode-v1-B1"))
    durations = [each.counter("duration_us") for each in recorded("decode-v1-B1")]
    assert len(durations) == 3
    assert evidence.counter("duration_us") == sorted(durations)[1]


def test_a_file_of_something_else_is_refused_with_what_it_holds(ask):
    with pytest.raises(UsageError, match="holds no launch of decode-v1") as raised:
        ask(file=recording("decode-v4-B1"))
    assert "decode-v4" in raised.value.hint
    with pytest.raises(UsageError, match="is about B=1 qk4_v8, not B=8"):
        ask(file=recording("decode-v1-B1"), axes="B=8")


def test_the_newest_stored_profile_of_the_gpu_that_is_asked_about(ask, profiles):
    assert ask(profiles=profiles, gpu="h200").profile_path.name.startswith("20261121")
    assert ask(profiles=profiles, gpu="b200").profile_path.name.startswith("20261122")
    assert ask(profiles=profiles).profile_path.name.startswith("20261122")
    assert ask(profiles=profiles, gpus=(H200,)).profile_path.name.startswith("20261121")
    assert ask(profiles=profiles, axes="B=2").profile is None


def test_without_a_profile_the_code_is_built_for_the_gpu_of_the_run(ask, runs):
    evidence = ask(results=runs)
    assert (evidence.measured.run_id, evidence.compiled.arch) == (RUN, "sm_90")
    assert evidence.launch.sms == 132
    assert evidence.measured.time_us == pytest.approx(5.098, abs=0.001)
    assert evidence.measured.gain == pytest.approx(0.218, abs=0.001)
    assert evidence.measured.copy_peak_share == pytest.approx(0.055, abs=0.001)


def test_a_run_of_another_gpu_or_of_other_params_is_no_evidence(ask, runs):
    assert ask(results=runs, gpu="b200").measured is None
    assert ask(results=runs, gpu="b200").compiled.arch == "sm_100"
    assert ask(results=runs, gpus=(B200,)).measured is None
    assert ask("decode-v1:BV=32", results=runs).measured is None
    assert ask(results=runs, axes="B=3").measured is None


def test_the_code_of_a_gpu_of_unknown_size_tells_nothing(ask, runs):
    with pytest.raises(UsageError, match="nothing is known of decode-v1"):
        ask(results=runs, gpu="l40s")


def test_a_damaged_run_is_passed_over(ask, runs):
    broken = runs / RUN.replace("20261121-185458", "20261122-000000")
    shutil.copytree(runs / RUN, broken)
    (broken / "measurements.csv").write_text("run_id\n")
    assert ask(results=runs).measured.run_id == RUN


def test_a_kernel_of_which_nothing_is_known(ask):
    with pytest.raises(UsageError, match="nothing is known of decode-fla at B=1 qk4_v8") as raised:
        ask("decode-fla")
    assert raised.value.hint.endswith("gdnbench ncu decode-fla --shape B=1")


def test_a_report_without_our_ranges_is_of_the_kernel_whose_function_it_names(ask, tmp_path):
    from dataclasses import replace

    foreign = [replace(one.profile, label="", op="", workload=None) for one in recorded("decode-v1-B1")]
    path: Path = tmp_path / "foreign.csv"
    write_profiles(path, foreign)
    assert ask(file=path, axes="B=1").profile.function == "gdn_decode_v1"
    with pytest.raises(UsageError, match="no launch of decode-v4"):
        ask("decode-v4", file=path)


def test_a_dispatcher_is_explained_as_the_kernel_that_it_picks(ask, runs):
    evidence = ask("decode-auto", gpus=(H200,), axes="B=8", results=runs)
    pick = kernels().entries["decode-auto"].dispatch.pick(decode_at(B=8), "h200")
    assert (evidence.entry.kernel.name, evidence.variant.params) == (pick.kernel, pick.params)
    assert not evidence.variant.is_picked
    assert evidence.label.partition(":")[0] in {pick.kernel, *evidence.entry.kernel.presets}


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_copying_floors_the_fastest_bounds_the_kernel(ask, tmp_path, order):
    folder = tmp_path / "results" / "20260102-030405-h200-decode"
    folder.mkdir(parents=True)
    floors = [
        measured(case("decode-floor-copy", Role.FLOOR, WARPS=8), 4.0),
        measured(case("decode-floor-copy:WARPS=16", Role.FLOOR, WARPS=16), 3.7),
        measured(case("decode-floor-empty", Role.FLOOR, WARPS=8), 2.7),
    ]
    params = kernels().entries["decode-v4"].default.params
    store(folder, [measured(case("decode-v4", **params), 4.6), *floors[::order]])
    found = ask("decode-v4", results=tmp_path / "results").measured
    assert (found.copy, found.copy_us, found.empty_us) == ("decode-floor-copy:WARPS=16", 3.7, 2.7)
