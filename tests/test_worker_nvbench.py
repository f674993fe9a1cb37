"""The GPU timer on a replay: NVBench's real files from an H200, handed out by a stand-in for `cuda.bench`."""

import gzip
import json
import os
import sys
import time
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from decode_workloads import decode_at
from run_data import Events, case

from gdnbench.catalog.catalog import default_roots
from gdnbench.errors import MachineError
from gdnbench.measure.timing import read_record
from gdnbench.measure.worker import gpu, nvbench
from gdnbench.model.status import Role, Status
from gdnbench.store.journal import Examined, HostTimes, Refused, Sampled, StepBegun
from gdnbench.verify import rotation
from gdnbench.workers import cold, placement
from gdnbench.workers.task import Phase, Task

DATA = Path(__file__).parent / "data" / "nvbench"
RECORDED = np.load(DATA / "samples.npz")
TIMES_US = RECORDED["times_s"].astype(float) * 1e6
NAMES = ("ok", "add", "ok2", "mul")
ROUNDS = len(TIMES_US) // len(NAMES)
WORKLOAD = decode_at(HQ=1, HV=1, K=8, V=8)
CASES = tuple(
    case(name, role, WORKLOAD, kernel="decode-reference")
    for name, role in zip(NAMES, (Role.BASELINE, Role.KERNEL, Role.KERNEL, Role.KERNEL), strict=True)
)


class Replay(ModuleType):
    """`cuda.bench` with the part that gdnbench uses; every state's samples are the next that were recorded."""

    def __init__(self, skip=(), raising=(), says="no kernel image\nmore"):
        super().__init__("cuda.bench")
        self.benchmarks, self.arguments, self._skip = [], None, skip
        self._raising = dict.fromkeys(raising, says)
        self.log, self.left = [], None  # what happened around the samples, and the process's exit code

    def register(self, function):
        self.benchmarks.append(Benchmark(function))
        return self.benchmarks[-1]

    def run_all_benchmarks(self, arguments):
        self.arguments = arguments
        record = Path(arguments[arguments.index("--jsonbin") + 1])
        for number, benchmark in enumerate(self.benchmarks):
            state = State(record, number, self.log, skipped=number in self._skip, raising=self._raising.get(number))
            benchmark.function(state)
        document = json.loads(gzip.decompress((DATA / "record.json.gz").read_bytes()))
        for written, benchmark in zip(document["benchmarks"], self.benchmarks, strict=True):
            written["name"] = benchmark.name
        record.write_text(json.dumps(document))


class Benchmark:
    def __init__(self, function):
        self.function, self.name, self.options = function, "", {}

    def set_name(self, name):
        self.name = name

    def set_stopping_criterion(self, name):
        self.options["criterion"] = name

    def set_criterion_param_int64(self, name, value):
        self.options[name] = value

    def set_min_samples(self, value):
        self.options["min-samples"] = value


class State:
    def __init__(self, record, number, log, *, skipped, raising):
        self._record, self._number, self._log, self._skipped, self._raising = record, number, log, skipped, raising

    def set_stream(self, stream):
        assert stream.__cuda_stream__() == (0, 77)

    def set_blocking_kernel_timeout(self, seconds):
        assert seconds > 0

    def is_skipped(self):
        return self._skipped

    def get_skip_reason(self):
        return "out of memory" if self._skipped else ""

    def exec(self, function, *, batched, sync=False, timer=False):
        assert not (batched or sync)  # either would take away the blocking kernel
        assert timer  # else NVBench brackets the whole sample, and what happens around the launch with it
        if self._raising:
            raise RuntimeError(self._raising)
        append = self._log.append
        function(None, SimpleNamespace(start=lambda: append("start"), stop=lambda: append("stop")))
        if self._skipped:
            return
        for suffix, values in (("-bin", "times_s"), ("-freqs-bin", "clocks_hz")):
            folder = Path(f"{self._record}{suffix}")
            folder.mkdir(exist_ok=True)
            RECORDED[values][self._number].tofile(folder / f"{self._number}.bin")


class Hooks:
    """Stands in for what is done between samples, and writes into the same log as the timer."""

    def __init__(self, log, seed):
        self.log, self.seed, self.after_calls = log, seed, []

    def before(self):
        self.log.append("before")

    def after(self, ranges, outputs):
        self.log.append("after")
        self.after_calls.append((ranges, outputs))


def _leave(code):
    raise SystemExit(code)


@pytest.fixture
def measure(tmp_path, monkeypatch):
    device = SimpleNamespace(stream=SimpleNamespace(cuda_stream=77), current=nullcontext, synchronize=lambda: None)
    monkeypatch.setattr(gpu, "CudaDevice", lambda: device)
    monkeypatch.setattr(nvbench, "is_alive", lambda _device: True)
    monkeypatch.setattr(os, "_exit", _leave)
    monkeypatch.setattr(placement, "list_ranges", lambda tensors: tuple(tensor.data_ptr() for tensor in tensors))
    monkeypatch.setattr(gpu, "gc", SimpleNamespace(disable=lambda: None))
    monkeypatch.setattr(gpu, "SmClock", lambda _stack: None)
    monkeypatch.setattr(gpu, "raise_clock", lambda _clock: None)

    def run(first_round=1, skip=(), raising=(), plain=True, **options):
        replay, events = Replay(skip, raising, **options), Events()
        replay.hooks = []

        def between(seed):
            replay.hooks.append(Hooks(replay.log, seed))
            return replay.hooks[-1]

        monkeypatch.setattr(cold, "DitherAndScrub", between)
        monkeypatch.setitem(sys.modules, "cuda.bench", replay)
        monkeypatch.setattr("cuda.bench", replay, raising=False)
        ids = [each.id for each in CASES]
        task = Task(
            phase=Phase.MEASURE, device="cpu", roots=(str(default_roots()[0]),), op="decode", cases=CASES, seed=1,
            step_limit_s=30.0, order=(tuple(ids),) * ROUNDS, first_round=first_round,
            samples=dict.fromkeys(ids, 300), plain=plain, placed_bytes=1 << 30, record=str(tmp_path / "measure-0.json"),
        )  # fmt: skip
        try:
            gpu.measure_all(task, events)
        except SystemExit as left:
            replay.left = left.code
        return events, replay

    return run


def test_each_state_gets_the_samples_that_were_measured_for_it(measure, tmp_path):
    """Its file is the newest by number: 9.bin comes before 10.bin."""
    sampled = [event for event in measure()[0] if isinstance(event, Sampled)]
    assert [event.case for event in sampled] == [each.id for each in CASES] * ROUNDS
    assert [event.round for event in sampled] == [number for number in range(ROUNDS) for _ in CASES]
    for event, times_us, clocks_hz in zip(sampled, TIMES_US, RECORDED["clocks_hz"], strict=True):
        assert event.times_us == event.sm_mhz == ()  # no code of a kernel has run where they are read
        found_us, sm_mhz = read_record(tmp_path / "measure-0.json", event.record)
        assert found_us == pytest.approx(times_us.tolist(), abs=1e-4)
        assert sm_mhz == pytest.approx((clocks_hz / 1e6).tolist(), abs=0.1)


def test_a_round_without_times_is_refused(tmp_path):
    folder = tmp_path / "measure-0.json-bin"
    folder.mkdir()
    strange = ([], [1e-6, np.nan], [1e-6, -1e-6], [np.inf], [0.0])
    for number, values in enumerate(strange):
        np.array(values, np.float32).tofile(folder / f"{number}.bin")
    for number in range(len(strange) + 1):
        with pytest.raises(MachineError, match=f"{number}.bin") as caught:
            read_record(tmp_path / "measure-0.json", number)
        assert caught.value.hint


def test_a_clock_that_is_none_is_left_out(tmp_path):
    for kind, values in (("bin", [1e-6, 1e-6]), ("freqs-bin", [np.nan, 1.9e9])):
        (folder := tmp_path / f"measure-0.json-{kind}").mkdir()
        np.array(values, np.float32).tofile(folder / "0.bin")
    assert read_record(tmp_path / "measure-0.json", 0) == ((1.0, 1.0), (1900.0,))


def test_the_samples_asked_for_are_the_samples_that_nvbench_is_asked_for(measure):
    _, replay = measure()
    assert {benchmark.options["criterion"] for benchmark in replay.benchmarks} == {"sample-count"}
    assert {benchmark.options["target-samples"] for benchmark in replay.benchmarks} == {300}
    assert len({benchmark.name for benchmark in replay.benchmarks}) == len(replay.benchmarks)


def test_host_times_are_the_calls_own_without_the_burn_in(measure, monkeypatch):
    """The clock runs 1 ms a call in the burn-in, then 1, 2, 3, ... µs a call, over all cases."""
    calls = [1_000_000] * len(CASES) + [1000 * number for number in range(1, len(CASES) * ROUNDS)]
    readings = iter([reading for nanoseconds in calls for reading in (0, nanoseconds)])
    monkeypatch.setattr(nvbench.time, "perf_counter_ns", lambda: next(readings))
    (host,) = (event for event in measure()[0] if isinstance(event, HostTimes))
    expected = np.median(np.reshape(range(1, len(CASES) * (ROUNDS - 1) + 1), (ROUNDS - 1, -1)), axis=0)
    assert host.cpu_us == pytest.approx(dict(zip([each.id for each in CASES], expected.tolist(), strict=True)))


def test_every_measurement_is_announced_first(measure):
    events, _ = measure()
    for before, event in pairwise(events):
        if isinstance(event, Sampled):
            assert isinstance(before, StepBegun)
            assert before.case == event.case


def test_a_state_that_nvbench_skips_is_lost_and_its_process_ends(measure):
    """It does not get the samples of the state before, and NVBench does not go on to its next round."""
    events, replay = measure(skip={6})
    assert len([event for event in events if isinstance(event, Sampled)]) == 6
    lost = events[-1]
    assert isinstance(lost, Examined)
    assert (lost.case, lost.status) == (CASES[2].id, Status.FAILED)
    assert "out of memory" in lost.reason
    assert replay.left == 0


@pytest.mark.parametrize(("alive", "status"), [(True, Status.FAILED), (False, Status.CRASHED)])
def test_a_case_that_raises_is_lost_with_its_reason_and_its_process_ends(measure, monkeypatch, alive, status):
    monkeypatch.setattr(nvbench, "is_alive", lambda _device: alive)
    events, replay = measure(raising={5})
    assert len([event for event in events if isinstance(event, Sampled)]) == 5
    assert events[-1] == Examined(CASES[1].id, status, "RuntimeError: no kernel image")
    assert replay.left == 0


def test_more_launches_than_a_queue_holds_are_told_as_that(measure):
    """As eager torch's prefill of 8,192 tokens has them; NVBench speaks of a missing `exec_tag::sync`."""
    raised = "nvbench/blocking_kernel.cu:128: Deadlock detected -- missing nvbench::exec_tag::sync?\nmore"
    events, replay = measure(raising={5}, says=raised)
    assert (events[-1].case, events[-1].status) == (CASES[1].id, Status.FAILED)
    assert "a launch queue holds 1024" in events[-1].reason
    assert "sync" not in events[-1].reason
    assert replay.left == 0


def test_a_case_that_replaces_a_clock_while_it_is_timed_loses_itself(measure, monkeypatch):
    monkeypatch.setattr(time, "sleep", time.sleep)  # restores what the case replaces
    rotation_open = rotation.Rotation.open

    def open_and_replace(self, position, number=0, **more):
        rotation_open(self, position, number, **more)
        if position == 1:
            time.sleep = lambda _seconds: None

    monkeypatch.setattr(rotation.Rotation, "open", open_and_replace)
    events, replay = measure()
    assert replay.left == 0
    assert (events[-1].status, events[-1].reason) == (
        Status.TAMPERS,
        "it replaces functions that it is judged with: time.sleep",
    )
    assert {event.round for event in events if isinstance(event, Sampled)} == {0}


def test_what_is_done_between_samples_is_outside_the_time(measure):
    _, replay = measure(plain=False)
    assert replay.log == ["before", "start", "stop", "after"] * ROUNDS * len(CASES)
    (hooks,) = replay.hooks  # one for all cases: its random numbers must not begin anew in each round
    assert hooks.seed == 1


def test_every_sample_of_a_case_runs_on_other_tensors_and_those_are_scrubbed(measure):
    """What is scrubbed are the inputs that the sample read, and the outputs that it wrote."""
    _, replay = measure(plain=False)
    (hooks,) = replay.hooks
    for first in range(len(CASES)):
        own = hooks.after_calls[first :: len(CASES)]
        assert len({ranges for ranges, _ in own}) == ROUNDS  # a fresh window in each
        assert all([tensor.shape[-1] for tensor in outputs] == [WORKLOAD.V, WORKLOAD.K] for _, outputs in own)


def test_one_bad_case_is_blamed_while_it_is_bound_before_anything_is_timed(measure, monkeypatch):
    load = rotation.load

    def fail(_copy):
        raise RuntimeError("no memory left")

    def load_or_fail(entry, variant, workload):
        return fail if variant.label == "ok2" else load(entry, variant, workload)

    monkeypatch.setattr(rotation, "load", load_or_fail)
    events, replay = measure()
    assert events[-1] == Examined(CASES[2].id, Status.FAILED, "RuntimeError: no memory left")
    assert replay.arguments is None


def test_a_machine_where_nvbench_does_not_load_is_refused_with_a_hint(measure, monkeypatch):
    events = Events()
    monkeypatch.setitem(sys.modules, "cuda.bench", None)
    gpu.measure_all(SimpleNamespace(passes=lambda: [SimpleNamespace(clock=None)]), events)
    (refused,) = events
    assert isinstance(refused, Refused)
    assert refused.hint


def test_samples_tell_the_placements_of_their_tensors_and_of_outputs_that_the_kernel_allocates(measure):
    events, _ = measure(plain=False)
    rounds = [event for event in events if isinstance(event, Sampled) and event.case == CASES[0].id]
    assert [len(event.placements) for event in rounds] == [1] * ROUNDS  # the stand-in takes one sample
    assert [event.placements[0] for event in rounds] == [32 * position for position in range(ROUNDS)]
    assert len({event.output_placements[0] for event in rounds}) == ROUNDS
