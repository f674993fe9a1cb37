"""`gdnbench score` as its users use it: kernels that are right, wrong, slow and worse; its exit code is the verdict."""

import json
import os
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from faults import ADVERSARIAL, Gdnbench
from simulated_workers import DOES_NOTHING
from warm_processes import end_warm_parents

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.model.status import Status
from gdnbench.process.events import CaseChecked, NoteMade
from gdnbench.score.plan import Code, NoVerdict, Score, ScoreRequest
from gdnbench.score.run import score_kernel
from gdnbench.verbs.score import next_command
from gdnbench.verbs.watch import ScoreHistory

CPU = ("--gpu", "cpu", "--budget", "3s", "--step-limit", "4")
MOST_BYTES = 4096


@pytest.fixture(scope="module")
def bench():
    """The command line with a folder for locks and sockets whose path is short enough for a socket's."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="gdnbench-test-score-") as home:
        roots = tuple(ADVERSARIAL / name for name in ("both", "cpu", "broken"))
        yield Gdnbench(Path(home), roots, in_process=True)
        end_warm_parents(Path(home))


def scored(bench, kernel, *options, against="decode-reference"):
    """The document of a score on the CPU, and the exit code."""
    done = bench("score", kernel, "--against", against, *CPU, *options, "--json")
    assert done.out, done.err
    assert len(done.out.encode()) < MOST_BYTES
    document = json.loads(done.out)
    assert document["exit_code"] == done.code
    return document, done


def test_a_slow_kernel_is_slower_and_exits_with_1_and_nothing_is_left_behind(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document, done = scored(bench, "test-slow")
    assert (document["verdict"], done.code) == ("slower", 1)
    assert document["ratio"]["low"] <= document["ratio"]["estimate"] <= document["ratio"]["high"] < 1
    assert document["against"] == "decode-reference"
    assert document["time_us"] > 0
    assert document["seconds"]["all"] >= document["seconds"]["measure"] > 0
    assert not list(tmp_path.iterdir())
    assert not list((bench.home / "tmp").glob("gdnbench-score-*"))


def test_what_it_is_compared_with_may_be_slower(bench):
    document, done = scored(bench, "decode-reference", against="test-slow")
    assert (document["verdict"], done.code) == ("faster", 0)
    assert document["ratio"]["low"] > 1


FAILURES = {
    "test-wrong": ("wrong-numbers", 3, "got"),
    "test-nan": ("wrong-numbers", 3, "nan"),
    "test-changes-state": ("changed-input", 3, ""),
    "test-dies": ("crashed", 8, "SIGABRT"),
    "test-hangs": ("timed-out", 8, "did not end within"),
    "test-raises": ("failed", 8, "kernel.py:44: ValueError"),
    "test-precomputes": ("wrong-when-timed", 3, "right when it was verified"),
    "test-patches:HOW=event": ("tampers", 3, ""),
    "test-cuda-syntax-error": ("build-failed", 6, 'kernel.cu:6: error: expected a ";"'),
    "decode-syntax-error": ("broken", 6, "variant.py:5: SyntaxError"),
}


@pytest.mark.parametrize("kernel", FAILURES)
def test_a_failure_is_told_so_that_it_can_be_mended_and_has_no_time(bench, kernel):
    document, done = scored(bench, kernel)
    verdict, code, told = FAILURES[kernel]
    assert (document["verdict"], done.code) == (verdict, code), document
    assert told in document["failure"]
    assert not {"ratio", "kernel_ratio", "time_us"} & document.keys()


def test_a_kernel_for_gpus_is_checked_as_far_as_that_goes(bench):
    document, done = scored(bench, "decode-v9", against="decode-v8")
    assert (document["verdict"], done.code, document["against"]) == ("not-timed", 10, "decode-v8")
    told = "needs a GPU; not compared with decode-v8"
    lost = ["decode-v9 does not claim batch invariance, which decode-v8 claims"]
    assert (document["failure"], document["warnings"]) == (told, lost)
    assert document["registers"] > 0
    assert document["dependent_loads"] == 1


def test_a_rival_that_cannot_run_here_is_refused(bench):
    done = bench("score", "decode-reference", "--against", "decode-v8", *CPU)
    assert done.code == 5
    assert "--against" in done.err


def test_workers_are_forked_from_one_process_that_stays(bench, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    bench = Gdnbench(bench.home, bench.roots)
    scored(bench, "test-wrong")
    sockets = list((bench.home / "tmp").glob("gdnbench-warm-*/*.log"))
    assert len(sockets) == 1
    before = end_warm_parents(bench.home)
    assert before == 1
    document, _ = scored(bench, "test-wrong")  # and the next is none the worse for its end
    assert document["verdict"] == "wrong-numbers"


@pytest.mark.parametrize(
    ("kernel", "verdict", "told"),
    [
        ("decode-v1", NoVerdict.NOT_TIMED, "decode-v1 is right at B=1 qk4_v8"),
        ("decode-twice", Status.WRONG_NUMBERS, ""),
        ("test-cuda-syntax-error", Status.BUILD_FAILED, ""),
        ("decode-reference", NoVerdict.NOT_TIMED, ""),
    ],
)
def test_after_a_save_what_an_interpreter_finds_wrong_quickly_is_the_score(
    bench, monkeypatch, tmp_path, kernel, verdict, told
):
    """All else goes on to the whole score, which is left out here."""
    assert bench("new", "decode-twice", "--from", "decode-v1", "--to", str(tmp_path)).code == 0
    source = tmp_path / "decode" / "twice" / "kernel.cu"
    source.write_text(source.read_text().replace("scale * sum", "2.0f * scale * sum"))
    catalog = load_catalog((*default_roots()[:1], *bench.roots, tmp_path))
    whole = Score(kernel, "decode", "cpu", "decode-v9", NoVerdict.NOT_TIMED)
    monkeypatch.setattr("gdnbench.verbs.watch.load_catalog", lambda: catalog)
    monkeypatch.setattr("gdnbench.verbs.watch.score_kernel", lambda *_, **__: replace(whole, verdict=verdict))
    events = []
    turn = ScoreHistory(ScoreRequest(kernel, against="decode-v9"), None, Path()).take(events.append)
    notes = [event.text for event in events if isinstance(event, NoteMade)]
    assert turn.score.verdict == verdict
    assert "; ".join(notes).startswith(told)
    assert bool(turn.score.reason) == (verdict in {Status.WRONG_NUMBERS, Status.BUILD_FAILED})  # of no whole score


def test_ctrl_c_after_the_kernel_has_failed_is_not_lost(bench, monkeypatch):
    def press_ctrl_c(event):
        if isinstance(event, CaseChecked) and event.status.is_failure:
            raise KeyboardInterrupt

    asked = ScoreRequest(kernel="test-wrong", against="decode-reference", budget_s=1.0)
    catalog = load_catalog((*default_roots()[:1], *bench.roots))
    monkeypatch.setattr(tempfile, "tempdir", str(bench.home))
    assert score_kernel(catalog, asked, None, press_ctrl_c, warm=False).verdict is NoVerdict.STOPPED


def test_ctrl_c_ends_it_and_its_workers(bench):
    process = bench.start(
        "score", "test-slow", "--gpu", "cpu", "--against", "decode-reference", "--budget", "60s", "--json"
    )
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode in {130, 1}, err  # it may have had its verdict by then
    if process.returncode == 130 and out:
        assert json.loads(out)["verdict"] == "stopped"
    assert not list((bench.home / "tmp").glob("gdnbench-score-*"))


def test_without_a_baseline_that_works_there_is_no_verdict(bench):
    document, done = scored(bench, "decode-reference", against="test-dies")
    assert (document["verdict"], done.code) == ("no-baseline", 8)
    assert document["failure"].startswith("test-dies has no time: crashed")


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    """Workers are made up, compilers are real: times, clocks, bounds, code and causes."""
    bench = Gdnbench(tmp_path_factory.mktemp("gpu"))
    tests = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDNBENCH_SIMULATED", "0")
        patch.setattr(
            "faults.python_path", lambda *_: os.pathsep.join(map(str, (tests.parent, tests / "simulated", tests)))
        )
        yield bench


@pytest.mark.parametrize(
    ("idle", "verdict", "code"), [("decode-v8", "no-baseline", 8), ("decode-v9", "implausible", 3)]
)
def test_what_takes_less_time_than_its_work_has_no_score_on_either_side(gpu, monkeypatch, idle, verdict, code):
    monkeypatch.setenv(DOES_NOTHING, idle)
    done = gpu("score", "decode-v9", "--against", "decode-v8", "--gpu", "b200", "--seed", "1", "--json")
    document = json.loads(done.out)
    assert (document["verdict"], done.code) == (verdict, code)
    assert "less than the fastest copy of its bytes takes" in document["failure"]
    assert "ratio" not in document


@pytest.mark.parametrize(
    ("verdict", "code", "command"),
    [
        (Status.BROKEN, Code(), "list"),
        (Status.BUILD_FAILED, Code(), "inspect decode-mine"),
        (Status.WRONG_NUMBERS, Code(), "verify decode-mine"),
        (NoVerdict.NOT_TIMED, Code(registers=32), "inspect decode-mine"),
        (NoVerdict.NOT_HERE, Code(registers=32), "inspect decode-mine"),
        (NoVerdict.NOT_HERE, Code(), "list decode-mine"),
    ],
)
def test_what_is_next_can_be_run_for_what_failed(verdict, code, command):
    score = Score("decode-mine", "decode", "cpu", "decode-fla", verdict, "why", code=code)
    assert " ".join(next_command(score)) == f"gdnbench {command}"
