"""`gdnbench compare HEAD~1 HEAD --kernel K`: which sources of a repository are measured, on the CPU, which not."""

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from faults import FORKING, REPOSITORY, Gdnbench, python_path
from remote_data import WORKDIR, Laptop

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.revision import pair_revisions
from gdnbench.errors import ExitCode, MachineError, UnknownNameError, UnknownRevisionError, UsageError
from gdnbench.process.events import ignore
from gdnbench.score.plan import Code, NoVerdict, Score, ScoreRequest
from gdnbench.stats.interval import Verdict
from gdnbench.store.info import read_info
from gdnbench.verbs.score import next_command
from gdnbench.verbs.watch import ScoreHistory

pytestmark = pytest.mark.slow

MINE = """
import time
import torch

def bind(tensors, workload, params):
    def run():
        {work}
        torch.mm(tensors.A, tensors.B.T, out=tensors.C)
        return (tensors.C,)
    return run
"""
SHORT = ("--kernel", "gemm-mine", "--rounds", "3", "--shape", "M=4", "--margin", "0.9", "-q", "--json")


def git(folder, *arguments, date=""):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    environment = {**os.environ, "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def commit(folder, name, hour):
    """Commits all that there is at an hour of a day, as the tag `name`."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", f"Make it {name}", date=f"2026-01-01T{hour:02}:00:00+00:00")
    git(folder, "tag", name)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A repository of kernels of the toys' gemm, a tag for each commit; gives its folder of kernels."""
    top = tmp_path_factory.mktemp("history")
    git(top, "init", "--quiet")
    kernels, mine = top / "kernels", top / "kernels" / "gemm" / "mine"
    ignored = shutil.ignore_patterns("__pycache__")  # which other tests leave behind
    shutil.copytree(REPOSITORY / "tests" / "toys" / "gemm", kernels / "gemm", ignore=ignored)
    shutil.copytree(kernels / "gemm" / "torch", mine)
    edit(mine / "variant.py", "gemm-torch", "gemm-mine")
    (mine / "kernel.py").write_text(MINE.format(work="pass"))
    edit(kernels / "gemm" / "cuda" / "kernel.cu", "extern", '#include "../tile.cuh"\n#include <far.cuh>\nextern')
    (kernels / "include").mkdir()
    for header in (kernels / "gemm" / "tile.cuh", kernels / "include" / "far.cuh"):
        header.write_text("// one\n")
    commit(top, "one", 1)
    (mine / "kernel.py").write_text(MINE.format(work="time.sleep(0.002)"))
    mine.rename(mine.with_name("moved"))
    (kernels / "gemm" / "tile.cuh").write_text("// two\n")
    commit(top, "slow", 2)
    edit(mine.with_name("moved") / "kernel.py", "return (", "tensors.C.mul_(2); return (")
    (kernels / "include" / "far.cuh").write_text("// three\n")
    edit(kernels / "gemm" / "numerics.py", "import torch", "import torch  # another draw")
    commit(top, "wrong", 3)
    git(top, "update-ref", "refs/tags/-dash", "HEAD")
    shutil.rmtree(mine.with_name("moved"))
    commit(top, "gone", 4)
    edit(kernels / "gemm" / "op.py", "gates=", 'scalars=("alpha",), gates=')
    edit(kernels / "gemm" / "cuda" / "kernel.cu", "extern", "// alpha\nextern")
    commit(top, "scaled", 5)
    git(top, "checkout", "--quiet", "slow")
    return kernels


@pytest.fixture
def bench(history, tmp_path, monkeypatch):
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "cache"))
    return Gdnbench(tmp_path, (history,), in_process=True)


def named(history, tag, label="gemm-mine"):
    return f"{label}@{git(history, 'rev-parse', tag)[:8]}"


def statuses(done):
    return {label: (row["role"], row["status"]) for label, row in done.rows.items()}


def pair(history, label, before, after, *more):
    return pair_revisions(load_catalog([*more, history]), label, before, after)


def test_both_revisions_are_measured_in_one_run_and_the_checkout_stays(bench, history):
    index = (history.parent / ".git" / "index").stat()
    done = bench("compare", "one", "slow", *SHORT, "--fail-on", "slower:50%", "--out", str(bench.results))
    one, slow = named(history, "one"), named(history, "slow")
    assert done.out, done.err
    assert statuses(done) == {one: ("baseline", "ok"), f"{one}@again": ("control", "ok"), slow: ("kernel", "ok")}
    assert done.code == ExitCode.REGRESSION
    assert f"{slow} at M=4 N=48 Kd=32 is slower by more than 50" in done.err
    info = read_info(bench.only_run())
    now = load_catalog([history]).entries["gemm-mine"].source_hash()
    assert info.complete
    assert (info.sources[slow], info.baseline) == (now, one)
    assert info.sources[one] != now
    assert (history.parent / ".git" / "index").stat() == index
    assert git(history, "status", "--porcelain") == ""
    shown = bench("show", info.run_id, "--out", str(bench.results), "--json")
    assert statuses(shown) == statuses(done)
    (bench.only_run() / "run.json").write_text((bench.only_run() / "run.json").read_text().replace("true", "false", 1))
    assert f"begin it anew: {info.command}" in bench("run", "--resume", info.run_id, "--out", str(bench.results)).err
    refused = bench("compare", info.run_id, "slow", *SHORT, "--out", str(bench.results))
    assert refused.code == ExitCode.USAGE
    assert "names a run" in refused.err


def test_both_revisions_are_measured_on_a_target_that_has_neither(history, tmp_path):
    (tmp_path / "home").mkdir()
    found = {"GDNBENCH_KERNELS": str(history), "GDNBENCH_CACHE": str(tmp_path / "cache")}
    laptop = Laptop(tmp_path / "home", tmp_path / WORKDIR, {"PYTHONPATH": python_path(*FORKING), **found})
    laptop.configure(f'[targets.here]\nkind = "local"\nworkdir = "{laptop.workdir}"\n')
    done = laptop("compare", "one", "slow", *SHORT, "--gpu", "cpu", "--on", "here", "--fail-on", "slower:50%")
    assert done.out, done.err
    one, slow = named(history, "one"), named(history, "slow")
    assert statuses(done) == {one: ("baseline", "ok"), f"{one}@again": ("control", "ok"), slow: ("kernel", "ok")}
    assert (done.code, f"{slow} at M=4 N=48 Kd=32 is slower by more than 50" in done.err) == (ExitCode.REGRESSION, True)
    [run] = laptop.runs
    assert read_info(run).machine["target"] == "here"
    refused = laptop("compare", "one", "slow", *SHORT, "--on", "lab")
    assert (refused.code, "there is no target lab" in refused.err) == (ExitCode.USAGE, True)


def test_a_score_is_against_the_sources_of_a_commit(bench, history, monkeypatch):
    score = ("score", "gemm-mine", "--gpu", "cpu", "--shape", "M=4", "--budget", "2s", "--json")
    done = bench(*score, "--against", "git:one")
    assert (done.code, done.document["verdict"]) == (ExitCode.REGRESSION, "slower"), done.err
    one = named(history, "one")
    assert done.document["against"] == one
    score_of_it = Score("gemm-mine", "gemm", "cpu", one, NoVerdict.NOT_TIMED, code=Code(registers=9))
    assert next_command(replace(score_of_it, verdict=Verdict.FASTER))[:4] == ("gdnbench", "compare", one[-8:], ".")
    assert next_command(score_of_it)[1] == "inspect"
    refused = bench(*score, "--against", "git:slow")
    assert (refused.code, "has the same sources" in refused.err) == (ExitCode.USAGE, True)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(history))
    turns = ScoreHistory(ScoreRequest("gemm-mine", against="git:slow"), None, history)  # goes on with the next save
    assert turns.take(ignore).score.verdict is Verdict.SAME


def test_the_working_tree_with_what_is_not_committed(bench, history, tmp_path):
    tree = shutil.copytree(history.parent, tmp_path / "dirty")
    edit(tree / "kernels" / "gemm" / "moved" / "kernel.py", "return (", "tensors.C.mul_(2); return (")
    dirty = Gdnbench(tmp_path, (tree / "kernels",), in_process=True)
    done = dirty("compare", "one", *SHORT, "--out", str(dirty.results))
    one = named(history, "one")
    assert statuses(done)[one] == ("baseline", "ok")
    assert statuses(done)["gemm-mine"] == ("kernel", "wrong-numbers")
    assert done.code == ExitCode.WRONG_NUMBERS
    source = load_catalog([tree / "kernels"]).entries["gemm-mine"].source_hash()
    assert read_info(dirty.only_run()).sources["gemm-mine"] == source


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("compare", "one", "slow"), ExitCode.USAGE, "one is a git revision: add --kernel KERNEL"),
        (("compare", "one", "nowhere", *SHORT), ExitCode.USAGE, "nor is there a run of that name"),
        (("compare", "one", "slow", "wrong", *SHORT), ExitCode.USAGE, "3 revisions are too many"),
        (("compare", "one", "", *SHORT), ExitCode.USAGE, "a revision needs a name"),
        (("compare", "one", "slow", *SHORT, "--cols", "run"), ExitCode.USAGE, "--kernel does not go with --cols"),
        (("compare", "one", "gone", *SHORT), ExitCode.USAGE, "gone has no kernel gemm-mine"),
        (("compare", "one", "slow", "-k", "gemm-cuda"), ExitCode.ENVIRONMENT, "needs a GPU"),
    ],
)
def test_refused_before_anything_is_measured(bench, words, code, said):
    done = bench(*words, "--out", str(bench.results))
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert not bench.results.exists()


@pytest.mark.parametrize(
    ("label", "before", "after", "failure", "said"),
    [
        ("gemm-mine", "slow", ".", UsageError, "has the same sources"),
        ("gemm-torch", "one", "slow", UsageError, "has the same sources"),
        ("gemm-cuda", "one", "scaled", UsageError, "other scalars at scaled than at one"),
        ("gemm-mine", "one", "scaled", UnknownNameError, "scaled has no kernel gemm-mine"),
        ("gemm-min", "one", "slow", UnknownNameError, "one has no kernel gemm-min"),
        ("gemm-min", "one", ".", UnknownNameError, "one has no kernel gemm-min"),
        ("gemm-mine", "one", "--help", UnknownRevisionError, "git has no --help"),
        ("decode-auto", "HEAD", "HEAD", UsageError, "picks kernels"),
        ("decode-floor-copy", "HEAD", "HEAD", UsageError, "is a floor"),
    ],
)
def test_what_cannot_be_compared(bench, history, label, before, after, failure, said):
    roots = [REPOSITORY / "kernels"] if label.startswith("decode") else []
    with pytest.raises(failure) as raised:
        pair(history, label, before, after, *roots)
    assert said in raised.value.message


def test_a_kernel_that_is_gone_and_a_revision_that_begins_with_a_dash(bench, history):
    git(history, "checkout", "--quiet", "gone")
    try:
        found = pair(history, "gemm-mine", "slow", "-dash")
    finally:
        git(history, "checkout", "--quiet", "slow")
    assert (found.before, found.after) == (named(history, "slow"), named(history, "wrong"))
    assert found.notes == (f"{found.before} is slow: Make it slow", f"{found.after} is -dash: Make it wrong")
    assert "both are held to that of -dash" in found.warnings[0]


@pytest.mark.parametrize("reverse", [False, True])
def test_each_side_has_its_own_headers_and_both_the_newer_op(bench, history, reverse):
    tags = ("wrong", "one") if reverse else ("one", "wrong")
    found = pair(history, "gemm-cuda", *tags)
    texts = {
        tag: [path.read_text() for _, path in found.catalog.entries[named(history, tag, "gemm-cuda")].included()]
        for tag in tags
    }
    assert texts == {"one": ["// one\n", "// one\n"], "wrong": ["// two\n", "// three\n"]}
    assert "another draw" in (found.catalog.op_folders["gemm"] / "numerics.py").read_text()
    assert {"gemm-torch", "gemm-cuda"}.isdisjoint(found.catalog.entries)
    assert found.catalog.broken == ()


def prepared(history, folder, command):
    """A copy of the repository in which a command of the shell was run; gives its top."""
    top = shutil.copytree(history.parent, folder / "copy")
    subprocess.run(command, shell=True, check=True, cwd=top, capture_output=True)
    return top


FILTERS = """
echo '* filter=evil export-ignore' > .git/info/attributes
for key in filter.evil.smudge filter.evil.process core.fsmonitor core.sshCommand core.pager; do
    git config $key "touch $PWD/ran; cat"
done
"""
SUBMODULE = "git init -q ../outer; git -C ../outer -c protocol.file.allow=always submodule -q add $PWD inner"


@pytest.mark.parametrize(
    ("command", "place", "variables"),
    [("true", "copy", {"GIT_DIR": "/nonexistent"}), (FILTERS, "copy", {}), (SUBMODULE, "outer/inner", {})],
)
def test_where_git_is_set_up_otherwise(bench, history, tmp_path, monkeypatch, command, place, variables):
    top = prepared(history, tmp_path, command)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = pair(tmp_path / place / "kernels", "gemm-mine", "one", "slow")
    assert "time.sleep" in found.catalog.entries[found.after].source.read_text()
    assert "time.sleep" not in found.catalog.entries[found.before].source.read_text()
    assert not (top / "ran").exists()


@pytest.mark.parametrize(
    ("command", "failure", "said"),
    [
        ("rm -r .git", UsageError, "is in no git repository"),
        ("git config core.bare true", UsageError, "is in no git repository with a working tree"),
        ("git init -q kernels/gemm/moved", UsageError, "is a repository of its own"),
        ("mkdir no-git", MachineError, "git does not run"),
    ],
)
def test_where_git_has_nothing_to_give(bench, history, tmp_path, monkeypatch, command, failure, said):
    top = prepared(history, tmp_path, command)
    catalog = load_catalog([top / "kernels"])
    if (top / "no-git").exists():
        monkeypatch.setenv("PATH", str(top / "no-git"))
    with pytest.raises(failure) as raised:
        pair_revisions(catalog, "gemm-mine", "one", "slow")
    assert said in raised.value.message


def test_files_that_lead_out_or_are_too_large_are_left_behind(bench, history, tmp_path, monkeypatch):
    links = "cd kernels/gemm/moved; ln -s /etc/hostname out; ln -s ../../../../x away; ln -s ../op.py in"
    top = prepared(history, tmp_path, f"{links}; head -c 2000 /dev/zero > large")
    monkeypatch.setattr("gdnbench.catalog.revision.MOST_SOURCE_BYTES", 1999)
    commit(top, "links", 9)
    found = pair(top / "kernels", "gemm-mine", "one", "links")
    folder = found.catalog.entries[found.after].folder
    assert sorted(path.name for path in folder.iterdir()) == ["in", "kernel.py", "variant.py"]
