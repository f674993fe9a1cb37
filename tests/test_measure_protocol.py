"""What parent and workers tell each other, and workers that run at once."""

import math
import os
import socket
import subprocess
import sys
import threading

import pytest
from decode_workloads import decode_at
from run_data import case

from gdnbench.model.gpu import Gpu
from gdnbench.model.status import GateResult, Role, Status
from gdnbench.process.channel import KEY_BYTES, Seal
from gdnbench.store import journal
from gdnbench.workers.supervision import run_concurrently, worker_environment
from gdnbench.workers.task import Pass, Phase, Task

GATE = GateResult("output within 1 ulp", "typical", math.inf, 1.0, "[0, 3]", Status.WRONG_NUMBERS)
EVENTS = [
    journal.Started("NVIDIA H200", 132, 62914560),
    journal.StepBegun("decode-v4/B1", "verify typical", 60.0),
    journal.StepBegun("", "load torch", 180.0),
    journal.Examined("decode-v4/B1", Status.OK, launches=1, launched=("gdn_v4", "(fill)"), warm_us=3.25),
    journal.Examined("decode-x/B1", Status.WRONG_NUMBERS, 'two\nlines, "quoted", ünïcödé', (GATE,), poisoned=True),
    journal.Sampled(3, "decode-v4/B1", (4.0, 4.032), (1980.0, 1965.0)),
    journal.Sampled(0, "decode-v4/B1", ()),
    journal.HostTimes({"decode-v4/B1": 21.5}),
    journal.Refused("cuda-bench does not load", "see `gdnbench doctor`"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_as_one_line(event):
    line = journal.encode(event)
    assert "\n" not in line
    assert journal.decode(line) == event


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_line_cut_off_anywhere_is_no_event(event):
    line = journal.encode(event)
    for size in range(len(line)):
        with pytest.raises(ValueError, match="not a message"):
            journal.decode(line[:size])


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "{}",
        "[]",
        "null",
        '{"kind": "Nonsense"}',
        '{"kind": "Step"}',
        '{"kind": "Step", "case": "a", "step": "b", "limit_s": "soon"}',
        '{"kind": "Sampled", "round": -1, "case": "a", "times_us": [1.0]}',
        '{"kind": "Sampled", "round": 1, "case": "a", "times_us": [NaN]}',
        '{"kind": "Sampled", "round": 1, "case": "a", "times_us": [1e308]}',
        "[" * 100000,
        '{"kind": "Sampled", "round": 1, "case": "a", "times_us": null, "sm_mhz": []}',
        '{"kind": "Examined", "case": "a", "status": "splendid", "gates": []}',
    ],
)
def test_junk_is_no_event(line):
    with pytest.raises(ValueError, match="not a message"):
        journal.decode(line)


def test_a_channel_delivers_whole_lines_however_long():
    key = os.urandom(KEY_BYTES)
    seal = Seal(key)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(key)
        channel = journal.EventChannel(theirs.fileno())
        for event in EVENTS:
            channel.send(event)
        lines = ours.recv(1 << 16).splitlines()
    assert [journal.decode(seal.remove(line)) for line in lines] == EVENTS


CASES = (
    case("decode-fla", Role.BASELINE),
    case("decode-t:MODE=a b", workload=decode_at(B=64, HQ=16, HV=32), MODE="a b"),
)


def task(**more):
    values = {
        "phase": Phase.MEASURE, "device": "cuda", "roots": ("/kernels", "/mine, too"), "op": "decode", "cases": CASES,
        "seed": 2**31 - 1, "step_limit_s": 30.0,
    }  # fmt: skip
    return Task(**{**values, **more})


@pytest.mark.parametrize("phase", Phase)
def test_a_task_survives_its_file(tmp_path, phase):
    ids = tuple(each.id for each in CASES)
    written = task(
        phase=phase, order=(ids, ids[::-1]), first_round=4, samples=dict.fromkeys(ids, 300), plain=True,
        launched=dict.fromkeys(ids, ("a", "b")), record="r.json", forms={ids[0]: ({"ROWS": 2}, {"MODE": "fast"})},
        further=(Pass("cupti", (ids,), 3, dict.fromkeys(ids, 30)),),
    )  # fmt: skip
    written.write(tmp_path / "task.json")
    read = Task.read(tmp_path / "task.json")
    assert read == written
    assert read.plain is True
    assert [set(each.samples.values()) for each in read.passes()] == [{300}, {30}]
    assert isinstance(read.phase, Phase)


def test_the_first_round_of_every_part_is_burn_in_and_the_others_count_on():
    assert [task().round_number(position) for position in range(4)] == [0, 1, 2, 3]
    assert [task(first_round=9).round_number(position) for position in range(4)] == [0, 9, 10, 11]


def test_a_part_that_follows_another_in_its_process_has_no_burn_in():
    assert [task(first_round=9, has_burn_in=False).round_number(position) for position in range(3)] == [9, 10, 11]


LIMIT_S = 10


def test_parts_run_at_once():
    both = threading.Barrier(2, timeout=LIMIT_S)
    run_concurrently(lambda _stop: both.wait(), lambda _stop: both.wait())


def test_one_alone_runs_in_this_thread():
    seen = []
    run_concurrently(lambda _stop: seen.append(threading.current_thread()))
    run_concurrently()
    assert seen == [threading.main_thread()]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_fault_stops_the_others_and_is_told(fault):
    stopped = []

    def fail(_stop):
        raise fault("mine")

    def wait(stop):
        stopped.append(stop.wait(LIMIT_S))

    with pytest.raises(fault, match="mine"):
        run_concurrently(wait, fail)
    assert stopped == [True]


def test_a_worker_of_a_gpu_or_an_interpreter_has_few_threads_unless_the_user_says_otherwise(monkeypatch):
    gpu = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert worker_environment(gpu)["OMP_NUM_THREADS"] == "4"
    assert worker_environment(None, interpret=True)["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in worker_environment(None)  # the CPU's own kernels are what is timed there
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert worker_environment(gpu)["OMP_NUM_THREADS"] == "16"


def test_a_worker_of_a_gpu_keeps_its_byte_code_where_python_may_not_write_any(monkeypatch, tmp_path):
    gpu = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0))
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    assert not {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"} & worker_environment(gpu).keys()
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr("sys.pycache_prefix", None)
    (tmp_path / "kept.py").write_text("")
    environment = {**os.environ, **worker_environment(gpu), "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import kept"], env=environment, check=True)
    assert list((tmp_path / "bytecode").rglob("*.pyc"))
    assert "PYTHONPYCACHEPREFIX" not in worker_environment(None)
    monkeypatch.setattr("sys.pycache_prefix", "/elsewhere")
    assert worker_environment(gpu)["PYTHONPYCACHEPREFIX"] == "/elsewhere"
