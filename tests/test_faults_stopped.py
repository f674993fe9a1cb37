"""Runs that are stopped, killed, started twice or out of disk: nothing that was measured is lost or mixed."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from faults import (
    ADVERSARIAL,
    CPU,
    LONG,
    REPOSITORY,
    ROUNDS,
    SHORT,
    Gdnbench,
    assert_whole,
    finish,
    is_running,
    measured,
    resume_whole,
    statuses,
    wait_for,
    workers_of,
)
from remote_data import WORKDIR

pytestmark = pytest.mark.slow


TOYS = REPOSITORY / "tests" / "toys"
ENDED = {
    "verify": (("verify", "test-slow", "--gpu", "cpu"), signal.SIGTERM),
    "run": (("run", "test-slow", *CPU, *LONG, "--out", "{home}/results"), signal.SIGHUP),
    "inspect": (("inspect", "decode-triton"), signal.SIGTERM),
    "export": (("exchange", "export", "decode-v4", "--to", "{home}/exported"), signal.SIGTERM),
    "elsewhere": (("verify", "test-slow", "--gpu", "cpu", "--on", "here"), signal.SIGTERM),
}


@pytest.fixture
def bench(tmp_path):
    return Gdnbench(tmp_path, (ADVERSARIAL / "cpu",), in_process=True)


def _samples(folder):
    import pandas as pd

    frame = pd.read_parquet(folder / "samples.parquet").astype({"case": str})
    return frame.assign(position=frame.groupby(["case", "round"]).cumcount()).set_index(["case", "round", "position"])


def _of_whole_rounds(samples, cases):
    """The samples of the rounds in which all cases were measured: a round that was cut in two is measured anew."""
    present = samples.reset_index().groupby("round")["case"].nunique()
    return samples[samples.index.get_level_values("round").isin(present[present == cases].index)]


def test_ctrl_c_while_measuring_keeps_what_was_measured_and_resume_adds_the_rest(bench):
    process = bench.start_run("test-slow", *CPU, *LONG, "-q")
    wait_for(measured(bench.results, 2), "the second round")
    workers = workers_of(process.pid)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 130
    assert not stopped.info["complete"]
    assert set(statuses(stopped.rows).values()) == {"ok"}
    assert all(1 <= row["rounds"] < ROUNDS for row in stopped.rows.values())
    assert workers
    assert not any(map(is_running, workers))
    folder = bench.only_run()
    assert not folder.name.startswith(".")
    before = _samples(folder)
    shown = bench("show", "--out", str(bench.results))
    assert shown.code == 0
    assert "partial" in shown.out + shown.err

    done = resume_whole(bench)
    after = _samples(bench.only_run())
    kept = _of_whole_rounds(before, cases=len(done.rows))
    assert len(kept)
    assert done.info["run_id"] == folder.name
    assert after.loc[kept.index].equals(kept)
    assert len(after) == len(done.rows) * ROUNDS * 5


def test_ctrl_c_before_anything_is_measured_and_resume_refuses_a_kernel_that_has_changed(tmp_path):
    roots = (tmp_path / "kernels",)
    source = shutil.copytree(ADVERSARIAL / "cpu" / "decode" / "slow", roots[0] / "decode" / "slow") / "kernel.py"
    bench = Gdnbench(tmp_path, roots, in_process=True)
    process = bench.start_run("test-slow", *CPU, *LONG, "-q")
    wait_for(lambda: workers_of(process.pid, "examine"), "the preflight")
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 130
    assert set(statuses(stopped.rows).values()) == {"not-run"}
    run_id = stopped.info["run_id"]

    honest = source.read_text()
    source.write_text(honest + "\n# changed\n")
    refused = bench.resume(run_id)
    assert (refused.code, refused.out) == (2, "")
    assert f"test-slow has changed since {run_id} began" in refused.err
    source.write_text(honest)
    resume_whole(bench)


def test_two_runs_at_once_wait_for_each_other_and_keep_to_their_folders(bench):
    import pandas as pd

    both = [replace(bench, forks=True).start_run("test-slow", *CPU, *SHORT) for _ in range(2)]
    done = [finish(process) for process in both]
    for each in done:
        assert_whole(each, rounds=3)
    assert sorted("waiting for it to finish" in each.err for each in done) == [False, True]
    folders = {folder.name for folder in bench.results.iterdir()}
    assert len(folders) == 2
    assert {each.info["run_id"] for each in done} == folders
    for folder in folders:
        assert set(pd.read_csv(bench.results / folder / "measurements.csv")["run_id"]) == {folder}
        assert len(_samples(bench.results / folder)) == 3 * 3 * 5


@pytest.mark.parametrize("verb", ENDED)
def test_what_is_terminated_leaves_no_temporary_file(bench, monkeypatch, verb):
    words, number = ENDED[verb]
    (bench.home / "gdnbench.toml").write_text(f'[targets.here]\nkind = "local"\nworkdir = "{bench.home / WORKDIR}"\n')
    monkeypatch.chdir(bench.home)
    monkeypatch.setenv("GDNBENCH_CACHE", str(bench.home / "cache"))  # nothing was tried or built before
    process = bench.start(*(word.format(home=bench.home) for word in words))

    def temporary():
        return [path for path in (bench.home / "tmp").iterdir() if path.suffix != ".lock"]

    wait_for(temporary, "a temporary file")
    time.sleep(0.2)  # between making a folder and knowing it Python has a moment in which nothing can remove it
    process.send_signal(number)
    assert finish(process).code == 130
    assert temporary() == []


def test_a_killed_run_leaves_a_hidden_folder_that_resume_finishes(bench):
    process = bench.start_run("test-slow", *CPU, *LONG, "-q")
    wait_for(measured(bench.results, 2), "the second round")
    workers = workers_of(process.pid)
    process.kill()
    process.wait()
    assert workers
    wait_for(lambda: not any(map(is_running, workers)), "the orphaned worker to end", 5)
    hidden = bench.only_run()
    assert hidden.name.startswith(".")
    shown = bench("show", "--out", str(bench.results))
    assert shown.code == 2
    assert "was stopped before it was written" in shown.err
    done = resume_whole(bench)
    assert f".{done.info['run_id']}.partial" == hidden.name


def test_the_worker_of_a_killed_run_ends_even_if_its_kernel_hangs(bench):
    process = bench.start_run("test-hangs", *CPU, "--step-limit", "100", "-q")
    wait_for(lambda: any("hanging" in log.read_text() for log in bench.results.glob("*/*.log")), "the kernel to hang")
    [worker] = workers_of(process.pid)
    process.kill()
    process.wait()
    try:
        wait_for(lambda: not is_running(worker), "the orphaned worker to end", 5)
    finally:
        if is_running(worker):
            os.kill(worker, signal.SIGKILL)


def test_a_killed_measuring_worker_costs_its_case_and_no_other(bench):
    process = bench.start_run("test-slow", *CPU, *LONG, "-q")
    wait_for(measured(bench.results), "the first round")
    [worker] = workers_of(process.pid, "measure")
    os.kill(worker, signal.SIGKILL)
    done = finish(process)
    lost = [row for row in done.rows.values() if row["status"] != "ok"]
    assert [row["status"] for row in lost] == ["crashed"]
    assert "died in step `measure` (SIGKILL)" in lost[0]["reason"]
    assert {row["rounds"] for row in done.rows.values() if row["status"] == "ok"} == {ROUNDS}
    assert done.code == 8
    assert done.info["complete"]


DISK_ROUNDS = 21
LONGEST_FILE = 14_000  # bytes: run.json has 9,000, and a journal grows with each round
OPTIONS = ("--op", "gemm", "--gpu", "cpu", "--rounds", str(DISK_ROUNDS), "--samples", "50", "--margin", "0.9")


def run_with_files_of_at_most(bench, nbytes):
    return subprocess.run(
        [sys.executable, "-m", "gdnbench", "run", "gemm-torch", *OPTIONS, "-q", "--out", str(bench.results)],
        env={**bench.environment, "PYTHONDONTWRITEBYTECODE": "1"},  # a compiled module would be cut off, too
        capture_output=True,
        text=True,
        timeout=bench.limit_s,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes)),
    )


def test_a_full_disk_ends_a_run_in_words_and_resume_finishes_it(tmp_path):
    bench = Gdnbench(tmp_path, (TOYS,), in_process=True)
    Gdnbench(tmp_path, (TOYS,))("list", "--op", "gemm")  # tries declarations, by a file that is longer
    stopped = run_with_files_of_at_most(bench, LONGEST_FILE)
    assert stopped.returncode == 5, stopped.stderr
    assert stopped.stderr.startswith("error: ")
    assert "File too large" in stopped.stderr and "hint:" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    [run] = bench("runs", "--out", str(bench.results), "--json").document
    assert run["state"] == "stopped"

    done = bench.resume(run["run_id"])
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert {row["rounds"] for row in done.rows.values()} == {DISK_ROUNDS}


@pytest.mark.parametrize("room", [0, 1, 2000])
def test_a_disk_that_is_full_from_the_start_leaves_no_folder_that_no_verb_sees(tmp_path, room):
    bench = Gdnbench(tmp_path, (TOYS,))
    stopped = run_with_files_of_at_most(bench, room)
    assert stopped.returncode
    assert "Traceback" not in stopped.stderr, stopped.stderr
    assert [*bench.results.glob("*"), *bench.results.glob(".*")] == []
