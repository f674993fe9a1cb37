"""Makes the visits: starts what measures, and has what it says judged."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gdnbench.calibrate.measure import CalibrationSubject, run_plan
from gdnbench.machine.gpus import alone_on
from gdnbench.measure.start import begin_session
from gdnbench.model.workload import Workload
from gdnbench.process.command import Completed, run_tool
from gdnbench.process.events import Observer
from gdnbench.store.settings import Settings, choose_settings
from gdnbench.workers.supervision import worker_environment

from .judging import judge_numbers, judge_nvbench, judge_run, judge_trial, kernel_name
from .peers import DEFAULT, FUNCTIONS, MOST_NAMES, NVBENCH, QUICK, Peer
from .pilot import Planted
from .records import Line
from .schedule import Visit
from .task import A, Answer, Task, WorkloadTask, read_answers

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300.0  # of a worker: it answers within a tenth of that


@dataclass(frozen=True)
class Bench:
    """What is measured, and where.

    Attributes:
        subject: the planted kernel, its workloads and the GPU.
        planted: what B is, at every workload; the equal kernel is among it.
        peers: who is tried.
        runs: the folder for gdnbench's runs.
        observer: told of gdnbench's steps.
        log: where the output of workers goes.
        names: that each kernel has in a run of gdnbench.
    """

    subject: CalibrationSubject
    planted: tuple[Planted, ...]
    peers: tuple[Peer, ...]
    runs: Path
    observer: Observer
    log: Path
    names: int

    @property
    def groups(self) -> dict[str, tuple[Peer, ...]]:
        """The peers by group."""
        return {name: tuple(p for p in self.peers if p.group == name) for name in dict.fromkeys(self._group_names)}

    @property
    def _group_names(self) -> list[str]:
        return [peer.group for peer in self.peers]

    def workload(self, label: str) -> Workload:
        """The workload of a label."""
        return next(each for each in self.subject.workloads if str(each) == label)


def measure_visit(bench: Bench, visit: Visit) -> list[Line]:
    """One trial of every peer of a group; what fails becomes lines that say why.

    Raises:
        KeyboardInterrupt: if the user stops it.
        GdnbenchError: if gdnbench itself cannot measure here.
    """
    match visit.group:
        case name if name == FUNCTIONS:
            lines = _measure_functions(bench, visit)
        case name if name == NVBENCH:
            lines = _measure_nvbench(bench, visit)
        case name if name in {QUICK, DEFAULT}:
            lines = _measure_gdnbench(bench, visit)
        case name:
            raise ValueError(f"there is no group {name}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return [replace(line, gpu=bench.subject.gpu.uuid, time=now) for line in lines]


def make_task(bench: Bench, visit: Visit, peers: Sequence[Peer], record: Path) -> Task:
    """What a worker is to measure: A and every B of each workload, the equal one under another name each trial."""
    copy = 1 + (visit.trial - 1) % MOST_NAMES
    workloads = []
    for label in dict.fromkeys(each.workload for each in bench.planted):
        here = [each for each in bench.planted if each.workload == label]
        kernels: dict[str, dict[str, int]] = {A: {}}
        for each in here:
            kernels[kernel_name(each)] = {"CHAIN": each.chain} if each.chain else {"COPY": copy}
        workloads.append(WorkloadTask(label, dict(bench.workload(label).sizes), kernels))
    roots = tuple(map(str, bench.subject.catalog.roots))
    seed = random.SystemRandom().randrange(2**31)
    return Task(roots, seed, tuple(workloads), tuple(peer.name for peer in peers), str(record))


def _measure_functions(bench: Bench, visit: Visit) -> list[Line]:
    peers = bench.groups[visit.group]
    with TemporaryDirectory() as folder:
        record = Path(folder) / "answers.jsonl"
        began = time.perf_counter()
        trouble = _run_worker(bench, "functions_worker", make_task(bench, visit, peers, record), Path(folder))
        whole_s = time.perf_counter() - began
        answers = read_answers(record)
    start_s = max(0.0, whole_s - sum(answer.seconds for answer in answers.values()))
    lines = []
    for peer in peers:
        answer = answers.get(peer.name, Answer(peer.name, 0.0, {}, trouble or "the worker gave no answer"))
        lines += judge_trial(bench.planted, visit, peer, judge_numbers(answer), start_s + answer.seconds)
    return lines


def _measure_nvbench(bench: Bench, visit: Visit) -> list[Line]:
    (peer,) = bench.groups[visit.group]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "nvbench.json"
        began = time.perf_counter()
        trouble = _run_worker(bench, "nvbench_worker", make_task(bench, visit, (peer,), path), Path(folder))
        seconds = time.perf_counter() - began
        return judge_trial(bench.planted, visit, peer, judge_nvbench(path, trouble), seconds)


def _run_worker(bench: Bench, module: str, task: Task, folder: Path) -> str:
    """Runs a worker to its end, with the GPU locked; why it failed, empty if it did not."""
    path = folder / "task.json"
    task.write(path)
    words = [sys.executable, "-m", f"benchmarks.peers.{module}", str(path)]
    environment = worker_environment(bench.subject.gpu)
    environment["PYTHONPATH"] = f"{ROOT}:{environment['PYTHONPATH']}"
    try:
        with alone_on(bench.subject.gpu, bench.observer):
            ended = run_tool(words, limit_s=LIMIT_S, environment=environment, merge=True)
    except TimeoutError as error:
        ended = Completed(1, str(error))
    with bench.log.open("a", encoding="utf-8") as log:
        log.write(f"--- {module}: exit code {ended.returncode}\n{ended.output}\n")
    return "" if ended.returncode == 0 else f"exit code {ended.returncode}: {ended.last_line}"


def _measure_gdnbench(bench: Bench, visit: Visit) -> list[Line]:
    (peer,) = bench.groups[visit.group]
    subject = replace(bench.subject, settings=gdnbench_settings(quick=visit.group == QUICK))
    plan = run_plan(subject, chains_of(bench), visit.trial, equal=bench.names, alike=bench.names)
    bench.runs.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    finished = begin_session(subject.catalog, plan, bench.runs, bench.observer).run()
    seconds = time.perf_counter() - began
    if finished.interrupted:
        raise KeyboardInterrupt
    return judge_run(bench.planted, visit, peer, finished, seconds)


def gdnbench_settings(*, quick: bool) -> Settings:
    """Those of `gdnbench run` where nothing is asked for, or of `gdnbench run --quick`."""
    return choose_settings(
        "cuda",
        quick=quick,
        rounds=None,
        samples=None,
        processes=None,
        seed=None,
        margin=Settings().margin,
        step_limit_s=Settings().step_limit_s,
        plain=False,
    )


def chains_of(bench: Bench) -> dict[Workload, dict[int, float]]:
    """What is planted, in calibrate's form."""
    chains: dict[Workload, dict[int, float]] = {workload: {} for workload in bench.subject.workloads}
    for each in bench.planted:
        if each.chain:
            chains[bench.workload(each.workload)][each.chain] = each.target
    return chains
