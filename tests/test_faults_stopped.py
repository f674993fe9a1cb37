"""Runs that are stopped, killed, taken up again or started twice: nothing that was measured is lost or mixed."""

import os
import shutil
import signal

import pandas as pd
import pytest
from faults import ADVERSARIAL, CPU, SHORT, Gdnbench, finish, is_running, measured, statuses, wait_for, workers_of

from gdnbench.bench.events import Examined, Sampled, encode
from gdnbench.bench.request import Settings
from gdnbench.bench.resume import load_unfinished
from gdnbench.catalog import load_catalog
from gdnbench.errors import RunFormatError
from gdnbench.model import Status
from gdnbench.store import Journal, RunInfo, write_info

ROUNDS = 12
LONG = (*SHORT, "--rounds", str(ROUNDS))  # with test-slow, more than a second of measuring

needs_seconds = pytest.mark.slow


@pytest.fixture
def bench(tmp_path):
    return Gdnbench(tmp_path, (ADVERSARIAL / "cpu",))


def _samples(folder):
    """The stored samples, one row per case, round and position in it."""
    frame = pd.read_parquet(folder / "samples.parquet").astype({"case": str})
    return frame.assign(position=frame.groupby(["case", "round"]).cumcount()).set_index(["case", "round", "position"])


def _of_whole_rounds(samples, cases):
    """The samples of the rounds in which all cases were measured: a round that was cut in two is measured anew."""
    present = samples.reset_index().groupby("round")["case"].nunique()
    return samples[samples.index.get_level_values("round").isin(present[present == cases].index)]


def _assert_whole(done, rounds=ROUNDS):
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert {row["rounds"] for row in done.rows.values()} == {rounds}


def _resumed(bench):
    """Takes up the one run there is; it must end whole, in the one folder, without a journal."""
    folder = bench.only_run()
    done = bench.resume(folder.name.removeprefix(".").removesuffix(".partial"))
    _assert_whole(done)
    assert bench.only_run().name == done.info["run_id"]
    assert not (bench.only_run() / "journal.jsonl").exists()
    return done


@needs_seconds
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

    done = _resumed(bench)
    after = _samples(bench.only_run())
    kept = _of_whole_rounds(before, cases=len(done.rows))
    assert len(kept)
    assert done.info["run_id"] == folder.name
    assert after.loc[kept.index].equals(kept)
    assert len(after) == len(done.rows) * ROUNDS * 5


@needs_seconds
def test_ctrl_c_before_anything_is_measured_and_what_resume_refuses(tmp_path):
    roots = (tmp_path / "kernels",)
    source = shutil.copytree(ADVERSARIAL / "cpu" / "decode" / "slow", roots[0] / "decode" / "slow") / "kernel.py"
    bench = Gdnbench(tmp_path, roots)
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
    _resumed(bench)
    refused = bench.resume(run_id)
    assert refused.code == 2
    assert "is complete" in refused.err
    refused = bench.resume("20010101-no-such-run")
    assert refused.code == 2
    assert "no run 20010101-no-such-run" in refused.err


@needs_seconds
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
    assert "no runs in" in shown.err
    done = _resumed(bench)
    assert f".{done.info['run_id']}.partial" == hidden.name


@needs_seconds
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


@needs_seconds
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


@needs_seconds
def test_two_runs_at_once_wait_for_each_other_and_keep_to_their_folders(bench):
    both = [bench.start_run("test-slow", *CPU, *SHORT) for _ in range(2)]
    done = [finish(process) for process in both]
    for each in done:
        _assert_whole(each, rounds=3)
    assert sorted("waiting for it to finish" in each.err for each in done) == [False, True]
    folders = {folder.name for folder in bench.results.iterdir()}
    assert len(folders) == 2
    assert {each.info["run_id"] for each in done} == folders
    for folder in folders:
        assert set(pd.read_csv(bench.results / folder / "measurements.csv")["run_id"]) == {folder}
        assert len(_samples(bench.results / folder)) == 3 * 3 * 5


@needs_seconds
def test_a_run_that_is_being_measured_is_not_taken_up(bench):
    process = bench.start_run("test-slow", *CPU, *LONG, "-q")
    wait_for(measured(bench.results), "the first round")
    refused = bench.resume(bench.only_run().name.removeprefix(".").removesuffix(".partial"))
    _assert_whole(finish(process))
    assert refused.code == 2
    assert "being measured" in refused.err


def _describe(folder, **more):
    settings = {**vars(Settings(rounds=3)), **more}
    info = RunInfo(
        run_id="r", timestamp="", complete=False, command="", op="decode", gpu="cpu", settings=settings, cases=[]
    )
    write_info(folder, info)


def _replayed(folder, *parts):
    """What a run of two cases, stopped after each part, has measured: samples by case and round."""
    _describe(folder)
    for part in parts:
        with Journal(folder) as journal:
            for event in part:
                journal.append(encode(event))
    return load_unfinished(folder.parent, str(folder), load_catalog([])).collected


def _sampled(number, case, part):
    return Sampled(number, case, (float(part),))


@pytest.mark.parametrize("plain", [False, True])
def test_a_run_goes_on_as_it_began(tmp_path, plain):
    _describe(tmp_path, plain=plain)
    settings = load_unfinished(tmp_path.parent, str(tmp_path), load_catalog([])).settings
    assert settings == Settings(rounds=3, plain=plain)


def test_a_run_that_began_with_settings_unknown_here_is_not_taken_up(tmp_path):
    _describe(tmp_path, copies=8)
    with pytest.raises(RunFormatError, match="copies") as caught:
        load_unfinished(tmp_path.parent, str(tmp_path), load_catalog([]))
    assert caught.value.hint


def test_the_halves_of_a_round_of_two_parts_do_not_make_a_whole(tmp_path):
    burn_in = [_sampled(0, "a", 0), _sampled(0, "b", 0)]
    first = [*burn_in, _sampled(1, "a", 1), _sampled(1, "b", 1), _sampled(2, "a", 1)]
    second = [*burn_in, _sampled(2, "b", 2)]
    collected = _replayed(tmp_path, first, second)
    assert collected.whole_rounds("ab") == {1}


def test_a_lost_case_does_not_tear_the_rounds_of_the_others(tmp_path):
    burn_in = [_sampled(0, "a", 0), _sampled(0, "b", 0)]
    lost = Examined("b", Status.CRASHED, "SIGKILL")
    first = [*burn_in, _sampled(1, "a", 1), lost, _sampled(0, "a", 1), _sampled(2, "a", 1)]
    collected = _replayed(tmp_path, first)
    assert collected.whole_rounds("a") == {1, 2}
    assert not collected.lost


def test_a_line_that_a_kill_cut_off_costs_only_itself(tmp_path):
    whole, cut = encode(_sampled(1, "a", 1)), encode(_sampled(2, "a", 1))[:-9]
    _replayed(tmp_path)
    (tmp_path / "journal.jsonl").write_text(f"{whole}\n{cut}")
    collected = _replayed(tmp_path, [_sampled(0, "a", 2), _sampled(2, "a", 2)])
    assert {number: sampled.times_us for number, sampled in collected.samples["a"].items()} == {1: (1.0,), 2: (2.0,)}
