"""Several runs at once, on cards or not: what each is told, and what becomes of all when one fails or is stopped."""

import os
import signal
import threading
import time

import pytest

from gdnbench.analyse.exit_code import worst_exit_code
from gdnbench.errors import ExitCode, UsageError
from gdnbench.machine.gpus import gpu_lock, select_cards, share_cores, usable_cores
from gdnbench.model.gpu import Gpu
from gdnbench.verbs.parallel import RunJob, RunOutcome, card_arguments, card_jobs, run_parallel, worst_code

FAKE = """
import json, os, signal, sys, time
from pathlib import Path
results, name, code, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
pressed = []
signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
print(f"measuring ({len(os.sched_getaffinity(0))})", file=sys.stderr, flush=True)
end = time.monotonic() + seconds
while len(pressed) < (2 if name == "stubborn" else 1) and time.monotonic() < end:
    time.sleep(0.02)
if pressed:
    print("stopped", file=sys.stderr)
    code = 130
if name:
    (results / name).mkdir(parents=True)
    print(json.dumps({"run": {"run_id": name}}))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@pytest.fixture(autouse=True)
def fake_command_line(monkeypatch):
    monkeypatch.setattr("gdnbench.process.child._COMMAND_LINE", FAKE)


def job(number, results, name="", code=0, seconds=0.0, cores=None):
    arguments = (str(results), name, str(code), str(seconds))
    return RunJob(f"part {number}", arguments, frozenset(cores) if cores else None)


def run(jobs, results):
    told = []
    outcomes = run_parallel(jobs, results, lambda name, line: told.append((name, line)))
    return outcomes, told


def test_runs_are_at_once_each_on_its_cores_and_their_folders_are_found(tmp_path):
    one = min(os.sched_getaffinity(0))
    began = time.monotonic()
    jobs = [job(number, tmp_path, f"run-{number}", seconds=1.5, cores=[one]) for number in range(4)]
    outcomes, told = run(jobs, tmp_path)
    assert time.monotonic() - began < 4 * 1.5
    assert [(each.code, each.folder, each.reason) for each in outcomes] == [
        (ExitCode.OK, tmp_path / f"run-{number}", "") for number in range(4)
    ]
    assert sorted(told) == [(f"part {number}", "measuring (1)") for number in range(4)]


def test_one_that_fails_costs_its_own_run(tmp_path):
    jobs = [job(0, tmp_path, "run-0"), job(1, tmp_path, code=5), job(2, tmp_path, code=-9)]
    outcomes, _ = run(jobs, tmp_path)
    assert [each.code for each in outcomes] == [ExitCode.OK, ExitCode.ENVIRONMENT, ExitCode.CRASHED]
    assert [each.folder for each in outcomes] == [tmp_path / "run-0", None, None]
    assert outcomes[2].reason == "its run ended with SIGKILL"
    assert not outcomes[1].reason


def run_and_press(jobs, results, times):
    """Runs jobs, and presses Ctrl-C once all have printed a line."""
    told, lines = [], threading.Event()

    def tell(name, line):
        told.append((name, line))
        if len(told) == len(jobs):
            lines.set()

    def press():
        lines.wait(60)
        for _ in range(times):
            time.sleep(0.5)  # for a test's thread that waited for a core to have begun its own wait
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    return run_parallel(jobs, results, tell), told


def test_a_second_ctrl_c_is_sent_on_and_not_waited_for(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_and_press([job(0, tmp_path, "stubborn", seconds=60)], tmp_path, 2)
    assert (tmp_path / "stubborn").is_dir()  # it ended by itself, at its second


def test_ctrl_c_reaches_all_and_each_keeps_its_run(tmp_path):
    jobs = [job(number, tmp_path, f"run-{number}", seconds=60) for number in range(2)]
    outcomes, told = run_and_press(jobs, tmp_path, 1)
    assert [each.code for each in outcomes] == [ExitCode.INTERRUPTED] * 2
    assert all(each.folder for each in outcomes)
    assert {line for _, line in told} >= {"stopped"}
    assert worst_code(outcomes, ExitCode.OK) is ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("codes", "joint", "worst"),
    [
        ((0, 0), 0, 0),
        ((4, 0), 0, 0),  # one run's baseline apart from itself by chance is not the answer's
        ((0, 0), 4, 4),
        ((8, 5), 4, 8),
        ((3, 6), 0, 3),
        ((70, 3), 0, 70),
        ((130, 70), 0, 130),
        ((5, 2), 0, 5),
    ],
)
def test_the_exit_code_is_the_gravest(codes, joint, worst):
    outcomes = [RunOutcome("part 1", ExitCode(code), "", None) for code in codes]
    assert worst_code(outcomes, ExitCode(joint)) == worst


def test_every_exit_code_has_a_rank():
    for code in ExitCode:
        assert worst_exit_code([code]) is code


GPUS = tuple(Gpu(index=n, name="NVIDIA H200", uuid=f"GPU-{n}aaa-1", capability=(9, 0)) for n in range(4))
B200 = Gpu(index=4, name="NVIDIA B200", uuid="GPU-4bbb-1", capability=(10, 0))


def test_a_list_names_gpus_as_one_is_named():
    assert select_cards("0,2", GPUS) == (GPUS[0], GPUS[2])
    assert select_cards("GPU-3aaa, 1", GPUS) == (GPUS[3], GPUS[1])


def test_gpus_of_two_models_are_refused_with_what_to_do():
    for wanted in ("all", "0,4"):
        with pytest.raises(UsageError, match="several models: NVIDIA H200, NVIDIA B200") as refused:
            select_cards(wanted, (*GPUS, B200))
        assert "run each model by itself" in refused.value.hint
        assert "compare" in refused.value.hint


def test_a_gpu_named_twice_is_refused():
    for wanted in ("1,1", "h200,h200", "2,GPU-2aaa"):
        with pytest.raises(UsageError, match="twice"):
            select_cards(wanted, GPUS)


def test_each_cards_run_is_the_command_with_its_own_gpu_and_label():
    words = ["run", "decode-v9", "--gpu", "all", "--shape", "B=1", "--label=night", "--csv", "-q"]
    assert card_arguments(words, GPUS[2], "night") == [
        "run", "--yes", "--gpu", "GPU-2aaa-1", "--label", "night-card2", "--json", "decode-v9", "--shape", "B=1", "-q",
    ]  # fmt: skip
    told = card_arguments(["run", "--gpu=0,2", "--label", "x", "-y", "--", "decode-v9"], GPUS[0], "x")
    assert told == ["run", "--gpu", "GPU-0aaa-1", "--label", "x-card0", "--json", "-y", "--", "decode-v9"]
    assert "card1" in card_arguments(["run", "--gpu", "all"], GPUS[1], "")


def test_cores_are_shared_evenly_and_by_node_where_that_is_known():
    cores, unknown = list(range(8)), frozenset[int]()
    assert share_cores(cores, [unknown] * 2) == ((frozenset(range(4)), frozenset(range(4, 8))), False)
    near, far = frozenset(range(4, 8)), frozenset(range(4))
    assert share_cores(cores, [near, far]) == ((near, far), True)
    parts, is_near = share_cores(cores, [near, near, far])
    assert parts == (frozenset({4, 5}), frozenset({6, 7}), far)
    assert is_near
    whole = frozenset(range(100))
    assert share_cores(cores, [whole, whole]) == ((frozenset(range(4)), frozenset(range(4, 8))), False)


@pytest.mark.parametrize(
    "near",
    [
        [frozenset({0, 1}), frozenset({1, 2})],  # overlap
        [frozenset({0}), frozenset({0})],  # one core for two
        [frozenset({90}), frozenset({0, 1})],  # none that may be used
    ],
)
def test_nodes_that_cannot_be_shared_give_an_even_split(near):
    assert share_cores(range(4), near) == ((frozenset({0, 1}), frozenset({2, 3})), False)


def test_the_parts_of_this_machine_are_disjoint_and_usable():
    jobs, told = card_jobs(GPUS[:2], ["run", "--gpu", "all"], "")
    assert all(job.cores <= os.sched_getaffinity(0) for job in jobs)
    if len(usable_cores()) > 1:
        assert not jobs[0].cores & jobs[1].cores
        assert "cores of its own" in told
    else:
        assert "share all of them" in told


def test_two_cards_of_a_host_do_not_wait_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    waited = []
    with gpu_lock(GPUS[0], lambda: waited.append(0)), gpu_lock(GPUS[1], lambda: waited.append(1)):
        assert not waited
