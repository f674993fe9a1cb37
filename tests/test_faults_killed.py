"""Runs and workers that are killed: what was measured is kept, and no process is left behind."""

import os
import signal

import pytest
from faults import (
    ADVERSARIAL,
    CPU,
    LONG,
    ROUNDS,
    Gdnbench,
    finish,
    is_running,
    measured,
    resume_whole,
    wait_for,
    workers_of,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(tmp_path):
    return Gdnbench(tmp_path, (ADVERSARIAL / "cpu",), in_process=True)


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
