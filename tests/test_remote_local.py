"""A target that is this machine: all of the way but ssh."""

import json
import os
import shutil
import sys
import threading
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import pytest
from committed import RESULTS
from faults import FORKING, python_path
from remote_data import SHORT, WORKDIR, Laptop
from safetensors.torch import save_file

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.errors import LeftOutWarning, MachineError, UnknownNameError, UsageError
from gdnbench.launch import load_numerics
from gdnbench.process.events import ignore
from gdnbench.remote.environment import prepare, put_files, requirements
from gdnbench.remote.host import Host
from gdnbench.remote.job import RemoteJob, locked, take_up
from gdnbench.remote.targets import NamedTarget, SshTarget
from gdnbench.remote.transfer import ExpectedOutput, OriginFolders, fetch

RUN = "20261121-101900-h200-decode-main"


@pytest.fixture
def laptop(tmp_path):
    home = tmp_path / "a project"
    home.mkdir()
    laptop = Laptop(home, tmp_path / WORKDIR, {"PYTHONPATH": python_path(*FORKING)})
    laptop.configure(f'[targets.here]\nkind = "local"\nworkdir = "{laptop.workdir}"\n')
    return laptop


def save_captured(folder, name="layer 3"):
    op = load_catalog(default_roots()[:1]).ops["decode"]
    numerics = load_numerics(op, default_roots()[0] / "decode")
    tensors, _ = numerics.make_inputs(op.workload({"B": 1, "HQ": 1, "HV": 2}), 5, "cpu", "never")
    save_file(tensors, folder / f"{name}.safetensors")


@pytest.mark.slow
def test_a_run_and_the_captured_inputs_that_it_needs_travel(laptop, tmp_path):
    (laptop.home / "my layers").mkdir()
    save_captured(laptop.home / "my layers")
    path, out = "my layers/layer 3.safetensors", tmp_path / "its own results"
    done = laptop("run", "decode-reference", *SHORT, "--inputs", path, "--on", "here", f"--out={out}")
    assert done.code == 0, done.err
    [run] = out.iterdir()
    [told] = json.loads((run / "run.json").read_text())["inputs"]
    assert told["sha256"] == sha256((laptop.home / path).read_bytes()).hexdigest()
    assert told["profile"] in done.out
    assert f"stored in {run}" in done.out
    assert f"gdnbench show {run.name} --out '{out}' --csv" in done.out
    assert not laptop.results.exists()
    assert laptop.jobs == []


@pytest.mark.parametrize(("options", "others"), [((), set()), (("--library",), {"decode-compiled"})])
def test_the_kernels_of_a_project_are_meant_there_as_here(laptop, options, others):
    assert laptop("new", "decode-mine", "--from", "decode-reference", "--to", "kernels").code == 0
    done = laptop("run", "--dry-run", "--gpu", "cpu", "--json", "--on", "here", *options)
    assert done.code == 0, done.err
    assert set(json.loads(done.out)["kernels"]) == {"decode-mine", "decode-reference", *others}


def test_captured_inputs_that_are_not_here_are_refused_before_anything_is_sent(laptop):
    (laptop.home / "empty").mkdir()
    for path, told in (("none.safetensors", "there is no such file"), ("empty", "the folder holds no file")):
        done = laptop("verify", "decode-reference", "--inputs", path, "--on", "here", "-q")
        assert done.code == 2
        assert told in done.err
    assert not laptop.workdir.exists()


def test_a_run_that_goes_on_elsewhere_takes_its_captured_inputs_along(laptop, sent):
    job(laptop.home / "x", partial=True, complete=False)
    shutil.move(laptop.home / "x" / "out" / "results", laptop.results)
    save_captured(laptop.home)
    laptop("run", "--resume", RUN, "--inputs", "layer 3.safetensors", "--on", "here")
    [forwarded] = sent
    assert forwarded.job.words == ["run", "--resume", RUN, "--inputs=../inputs/layer 3.safetensors"]
    assert [file.name for file in forwarded.inputs] == ["layer 3.safetensors"]


@pytest.mark.parametrize(
    ("table", "variables", "code", "told"),
    [
        ("", {"GDNBENCH_KERNELS": "/no/such folder"}, 2, "/no/such folder is not a folder of kernels"),
        ('python = "/no/such python"', {}, 5, "gdnbench does not start on this machine"),
        ('workdir = "/dev/null/jobs"', {}, 5, "here has no folder /dev/null/jobs"),
    ],
)
def test_what_the_target_needs_and_does_not_have_is_told(laptop, table, variables, code, told):
    workdir = "" if "workdir" in table else f'workdir = "{laptop.workdir}"'
    laptop.configure(f'[targets.here]\nkind = "local"\n{workdir}\n{table}\n')
    done = laptop("doctor" if code == 5 else "verify", "--on", "here", **variables)
    assert done.code == code
    assert told in done.err
    assert table.partition('"')[2].rstrip('"') in done.err


@pytest.fixture
def sent(monkeypatch):
    found = []

    def keep(self, _host, _observer):
        found.append(self)
        raise UsageError("it would be sent", "by the next release")

    monkeypatch.setattr("gdnbench.remote.forward.Forwarded.execute", keep)
    return found


def test_folders_stay_here_and_other_words_travel(laptop, sent):
    words = ("sweep", "decode-triton", "-pBV=4,8", "--out=x", "--label", "--on")
    laptop(*words, "--on", "here")
    [forwarded] = sent
    assert forwarded.job.words == ["sweep", "decode-triton", "-pBV=4,8", "--label", "--on"]
    assert forwarded.homes == OriginFolders(Path("x"), Path("profiles"))
    assert (forwarded.job.results, forwarded.job.target, forwarded.job.gpu) == ("x", "here", "auto")


def test_a_stopped_run_is_sent_whole_and_one_that_is_not_here_by_its_name(laptop, sent):
    job(laptop.home / "x", partial=True, complete=False)
    shutil.move(laptop.home / "x" / "out" / "results", laptop.results)
    laptop("run", "--resume", RUN[:15], "--on", "here", "--json")
    laptop("run", "--json", "--resume=2099", "--on", "here")
    here, there = sent
    assert here.unfinished == Path("results") / f".{RUN}.partial"
    assert here.job.words == ["run", "--resume", RUN, "--json"]
    assert here.job.resume == RUN
    assert here.job.models == []
    assert there.unfinished is None
    assert there.job.words == ["run", "--resume", "2099", "--json"]


def test_resuming_here_what_began_elsewhere_says_where(laptop, monkeypatch):
    job(laptop.home / "x", partial=True, complete=False)
    shutil.move(laptop.home / "x" / "out" / "results", laptop.results)
    path = laptop.results / f".{RUN}.partial" / "run.json"
    info = json.loads(path.read_text())
    path.write_text(json.dumps({**info, "machine": {**info["machine"], "target": "lab"}}))
    monkeypatch.setattr("gdnbench.measure.start.source_change", lambda *_: "")
    monkeypatch.setattr("gdnbench.measure.start.list_gpus", lambda: ())
    done = laptop("run", "--resume", RUN)
    assert done.code == 5
    assert "it began on another machine: --on lab" in done.err


# What a target without an interpreter gets. `uv` is a stand-in: a download of torch is no test.

UV = """#!/bin/sh
echo "$@" >> "{log}"
if test "$1" = venv; then
  sleep 0.5
  for folder; do :; done
  mkdir -p "$folder/bin" && ln -s "{python}" "$folder/bin/python"
elif test -e "{broken}"; then
  echo 'error: no such package' >&2; exit 1
fi
"""


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A target without an interpreter, prepared in a folder of this machine, and the log of its `uv`."""
    (tmp_path / "bin").mkdir()
    uv, log = tmp_path / "bin" / "uv", tmp_path / "log"
    uv.write_text(UV.format(log=log, python=sys.executable, broken=tmp_path / "broken"))
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}{os.pathsep}{os.environ['PATH']}")

    class There(Host):
        name = "there"
        python = ""

        def connect(self, argv):
            return Host().connect(argv)

    target = SshTarget(host="there", workdir=str(tmp_path / "work dir's"))
    named = NamedTarget("lab", target, Path("gdnbench.toml"))
    return (lambda: prepare(named, There(), ignore)), log, tmp_path / "broken"


def test_an_environment_is_made_once_by_one_of_several(bare):
    make, log, _ = bare
    made = []
    threads = [threading.Thread(target=lambda: made.append(make())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ready.python for ready in made}) == 1
    assert Path(made[0].python).exists()
    assert len(made) == 3
    calls = log.read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["venv", "pip"]
    make()
    assert log.read_text().splitlines() == calls


def test_an_environment_that_cannot_be_made_is_told_and_made_anew(bare):
    make, log, broken = bare
    broken.touch()
    with pytest.raises(MachineError, match="no environment could be made on lab: error: no such package"):
        make()
    broken.unlink()
    assert Path(make().python).exists()
    assert len(log.read_text().splitlines()) == 4


def test_the_requirements_are_those_of_the_project():
    wanted = requirements()
    assert {"torch>=2.8", "triton>=3.4,<3.9", "msgspec>=0.20"} <= set(wanted.packages)
    assert any(line.startswith("fla-core") for line in wanted.packages)
    assert not any(line.startswith("pytest") for line in wanted.packages)
    assert "torch==" in wanted.constraints


# What is sent.


class CutHost(Host):
    """What it is sent ends early, as where a connection is cut; and so does what it sends."""

    def start(self, argv, **streams):
        cut = 'head -c 2000 | "$@"' if streams.get("stdin") else '"$@" | head -c 2000'
        return super().start(["sh", "-c", cut, "cut", *argv], **streams)


def test_a_tree_arrives_whole_or_not_at_all_and_once(tmp_path):
    odd = tmp_path / "a 'b\"\nc.py"
    odd.write_bytes(os.urandom(5000))
    (tmp_path / "there").mkdir()
    files = {f"x/{odd.name}": odd, "y.py": odd}
    with pytest.raises(MachineError, match="could not be sent to this machine"):
        put_files(CutHost(), str(tmp_path / "there"), "tree", files)
    assert list((tmp_path / "there").iterdir()) == []
    for _ in range(2):  # as two commands at once
        put_files(Host(), str(tmp_path / "there"), "tree", files)
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["tree"]
    assert (tmp_path / "there" / "tree" / "x" / odd.name).read_bytes() == odd.read_bytes()


# What is copied back, and what a target keeps.


def job(folder, *, partial=False, complete=True, journal=""):
    name = f".{RUN}.partial" if partial else RUN
    run = shutil.copytree(RESULTS / RUN, folder / "out" / "results" / name)
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "complete": complete}))
    if journal:
        (run / "journal.jsonl").write_text(journal)
    return folder


def home(tmp_path):
    return OriginFolders(tmp_path / "results", tmp_path / "profiles")


def is_complete(run):
    return json.loads((run / "run.json").read_text())["complete"]


def bring(folder, homes, expected=None):
    return fetch(Host(), str(folder / "out"), homes, expected or ExpectedOutput())


def test_a_continuation_takes_the_place_of_its_part_and_a_part_never_that_of_a_whole_run(tmp_path):
    homes = home(tmp_path)
    [run] = bring(job(tmp_path / "1", partial=True, complete=False, journal="x\n"), homes)
    assert run == homes.results / f".{RUN}.partial"
    [run] = bring(job(tmp_path / "2", complete=False), homes)
    assert [path.name for path in homes.results.iterdir()] == [RUN]
    [run] = bring(job(tmp_path / "3"), homes)
    assert is_complete(run)
    for later in (job(tmp_path / "4", complete=False), job(tmp_path / "5", partial=True, complete=False)):
        with pytest.raises(UsageError, match="is not a part of what came back"):
            bring(later, homes)
        assert [path.name for path in homes.results.iterdir()] == [RUN]
        assert is_complete(run)


def test_profiles_and_what_nobody_asked_for(tmp_path):
    out = tmp_path / "job" / "out"
    (out / "profiles" / "ncu" / "k").mkdir(parents=True)
    (out / "profiles" / "ncu" / "k" / "a.csv").write_text("new")
    (out / ".bashrc").write_text("evil")
    (out / "other").mkdir()
    (out / "other" / "x").write_text("x")
    (tmp_path / "profiles" / "ncu" / "k").mkdir(parents=True)
    (tmp_path / "profiles" / "ncu" / "k" / "b.csv").write_text("old")
    homes = OriginFolders(tmp_path / "results", tmp_path / "profiles")
    with pytest.warns(LeftOutWarning, match=r"\.bashrc, other"):
        assert bring(tmp_path / "job", homes, ExpectedOutput("ncu", ("k",))) == []
    assert (tmp_path / "profiles" / "ncu" / "k" / "a.csv").read_text() == "new"
    assert (tmp_path / "profiles" / "ncu" / "k" / "b.csv").read_text() == "old"
    assert not (tmp_path / "results").exists()


FORGED = {
    "results/published/nvidia/figures.csv": "published figures",
    "results/published/run.json": "a run that has their name",
    "results/calibration/20260102-030405-h200/run.json": "a calibration",
    "results/evidence/20260102-030405-h200-decode/run.json": "evidence",
    "results/notes.txt": "a file beside runs",
    "results/20260102-030405-h200-decode": "a file with a run's name",
    "profiles/ncu/decode-v9/a.csv": "a profile of a kernel that was not named",
    "profiles/phases/decode-v4/a.npz": "a profile of another profiler",
    "profiles/ncu/decode-v4": "a file with a folder's name",
    "profiles/a.csv": "a file beside profiles",
    "profiles/latency/h200/a.json": "what a GPU costs",
    "ledger.jsonl": "a ledger",
    "gdnbench.toml": "targets",
}


@pytest.mark.parametrize(
    "asked",
    [ExpectedOutput("ncu", ("decode-v4",)), ExpectedOutput("run", ("decode-v4",)), ExpectedOutput("doctor"), None],
)
@pytest.mark.parametrize("path", FORGED, ids=FORGED.values())
def test_what_was_not_asked_for_is_left_out_and_told(tmp_path, path, asked):
    forged = tmp_path / "job" / "out" / path
    forged.parent.mkdir(parents=True)
    forged.write_text("{}")
    with pytest.warns(LeftOutWarning, match="not requested"):
        assert bring(tmp_path / "job", home(tmp_path), asked) == []
    left = [each for each in tmp_path.rglob("*") if each.is_file() and not each.is_relative_to(tmp_path / "job")]
    assert left == []


@pytest.mark.parametrize(
    ("named", "folder", "comes"),
    [
        ((), "decode-v4", True),
        (("decode-v4",), "decode-v4", True),
        (("decode-v4:WARPS=8",), "decode-v4_WARPS=8", True),
        (("decode-v4@HEAD~1",), "decode-v4@1a2b3c", True),
        (("decode-v*",), "decode-v9", True),
        (("decode-v3", "decode-v4"), "decode-v4", True),
        (("decode-v4",), "decode-v4b", False),
        (("decode-v4",), "decode-v", False),
        (("decode-v?",), "prefill-v1", False),
    ],
)
def test_a_profile_comes_home_where_its_kernel_was_named(tmp_path, named, folder, comes):
    there = tmp_path / "job" / "out" / "profiles" / "ncu" / folder / "a.csv"
    there.parent.mkdir(parents=True)
    there.write_text("new")
    with nullcontext() if comes else pytest.warns(LeftOutWarning):
        bring(tmp_path / "job", home(tmp_path), ExpectedOutput("ncu", named))
    assert (tmp_path / "profiles" / "ncu" / folder / "a.csv").is_file() == comes


@pytest.mark.parametrize(
    "path", [f"results/calibration/20260102-030405-h200/{RUN}/run.json", "profiles/latency/h200/20260102-030405.json"]
)
def test_what_a_doctor_measured_comes_home_where_that_was_asked_for(tmp_path, path):
    there = tmp_path / "job" / "out" / path
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    bring(tmp_path / "job", home(tmp_path), ExpectedOutput("doctor", measures=True))
    assert (tmp_path / path).is_file()


@pytest.mark.parametrize(("words", "measures"), [(["--calibrate"], True), (["--latency", "--json"], True), ([], False)])
def test_a_doctor_that_measures_is_known_by_its_options(words, measures):
    assert RemoteJob(words=["doctor", *words]).measures == measures


def test_what_does_not_arrive_whole_leaves_nothing(tmp_path):
    homes = home(tmp_path)
    folder = job(tmp_path / "1")
    with pytest.raises(MachineError, match="damaged or cut off"):
        fetch(CutHost(), str(folder / "out"), homes, ExpectedOutput())
    assert not homes.results.exists()
    with pytest.raises(MachineError):
        bring(tmp_path / "nowhere", homes)
    assert not homes.results.exists()


def test_of_a_run_sent_along_and_one_kept_the_further_one_is_taken(tmp_path):
    jobs = tmp_path / "jobs"
    own = job(jobs / "2", partial=True, complete=False, journal="one\n")
    kept = job(jobs / "1", partial=True, complete=False, journal="one\ntwo\n")
    run = take_up(own / "out", RUN)
    assert run.parent == own / "out" / "results"
    assert (run / "journal.jsonl").read_text() == "one\ntwo\n"
    assert len(list(run.parent.iterdir())) == 1
    assert not kept.exists()

    job(jobs / "3", partial=True, complete=False, journal="one\n")
    assert (take_up(own / "out", RUN[:18]) / "journal.jsonl").read_text() == "one\ntwo\n"
    with pytest.raises(UnknownNameError):
        take_up(own / "out", "20990101")


def test_of_several_runs_that_a_job_left_the_others_stay(tmp_path):
    jobs = tmp_path / "jobs"
    (jobs / "2" / "out").mkdir(parents=True)
    kept = job(jobs / "1", complete=False)
    other = kept / "out" / "results" / "20990101-000000-h200-decode-card1"
    shutil.copytree(RESULTS / RUN, other)
    take_up(jobs / "2" / "out", RUN)
    assert list((kept / "out" / "results").iterdir()) == [other]
    take_up(jobs / "2" / "out", other.name)
    assert not kept.exists()


def test_a_run_that_is_still_measured_there_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr("gdnbench.remote.job._LOCK_TIMEOUT_S", 0.3)
    jobs = tmp_path / "jobs"
    (jobs / "2" / "out").mkdir(parents=True)
    kept = job(jobs / "1", complete=False)
    with locked(kept), pytest.raises(UsageError, match="still running"):
        take_up(jobs / "2" / "out", RUN)
    assert take_up(jobs / "2" / "out", RUN).name == RUN
