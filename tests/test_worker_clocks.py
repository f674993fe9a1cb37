"""The workers of the further clocks on a GPU made up for them, whose true times are known."""

import random
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
from run_data import Events, case

from gdnbench.measure.worker import cupti, events, gpu, graph
from gdnbench.model.status import Status
from gdnbench.store.journal import Examined, Refused, Sampled, StepBegun
from gdnbench.workers import cold
from gdnbench.workers.launched import FILL, Activity
from gdnbench.workers.task import WARM_UPS, Phase, Task

SHORT, LONG = case("short"), case("long")
TRUE_US = {SHORT.id: (1.0,), LONG.id: (2.0, 3.0)}
CLOCK = {cupti: "cupti", graph: "graph", events: "events"}
FLUSH_NS, PAUSE_NS, HOST_NS = 38_000, 500, 90_000
PLACES = 4


class Gpu:
    """Does one thing after the other and writes down what, as CUPTI does; waits for a slow host unless it is held."""

    def __init__(self):
        self.now_ns, self.records, self.log, self.captured, self.is_held = 0, [], [], [], False

    def do(self, name, took_ns):
        self.records.append(Activity(name, self.now_ns, self.now_ns + took_ns))
        self.now_ns += took_ns + PAUSE_NS


class DitherAndScrub:
    def __init__(self, gpu, seed):
        self._gpu, self._random = gpu, random.Random(seed)

    def before(self):
        for _ in range(self._random.randrange(8)):
            self._gpu.do("gdnbench_nothing", 600)

    def after(self, ranges, outputs):
        self._gpu.log.append(("scrub", ranges, outputs))
        self._gpu.do("gdnbench_demote_listed", 2_000)


class BlockingKernel:
    def __init__(self, gpu):
        self._gpu = gpu

    def enqueue(self):
        self._gpu.do("gdnbench_block", 200_000)
        self._gpu.is_held = True

    def release(self):
        self._gpu.is_held = False


class Rotation:
    is_in_place, runs_python, tuned = False, True, ()

    def __init__(self, gpu, times_us):
        self._gpu, self._times_us, self.fails, self._at = gpu, times_us, False, 0
        self.opened, self.kept, self.judged = [], [], 0
        self.placements = tuple(SimpleNamespace(run=partial(self.run, place), ranges=place) for place in range(PLACES))

    def next_placement(self):
        self._at += 1
        return self.placements[(self._at - 1) % PLACES]

    def open(self, position, number=0, **_more):
        self.opened.append(position)

    def keep(self, placement, _outputs):
        self.kept.append(placement.ranges)
        return ()

    def warm_up(self, flush, after):
        for placement in self.placements:
            flush()
            placement.run()
            after(placement.ranges, self.keep(placement, ()))
            self.renew(placement)

    def renew(self, placement):
        self._gpu.do("gdnbench_renew", 2_000)
        self._gpu.log.append(("renew", placement.ranges))

    def judge(self):
        """The oracle's own work, a fill among it, is not one of the case's."""
        self.judged += 1
        self._gpu.do(FILL, 1_000)
        self._gpu.do("oracle", 5_000)
        return 2

    def visited(self, launches):
        return tuple(self.kept[-launches:]), ()

    def run(self, place=0):
        if self.fails:
            raise RuntimeError("no luck\nmore")
        for time_us in self._times_us:
            self._gpu.now_ns += 0 if self._gpu.is_held else HOST_NS
            self._gpu.do("kernel", int(time_us * 1e3))
        return (f"out {place}",)


class Recorder:
    """Gives what was recorded between start and stop, shuffled."""

    def __init__(self, gpu):
        self._gpu, self.lose = gpu, lambda _record: False

    def start(self):
        self._gpu.records.clear()

    def stop(self):
        found = [record for record in self._gpu.records if not self.lose(record)]
        random.Random(1).shuffle(found)
        return found


@pytest.fixture
def worker(monkeypatch):
    """Runs a clock's `measure_all`; gives its events. `gpu`, `rotations` and `recorder` may be meddled with before."""
    made = Gpu()
    device = SimpleNamespace(stream=made, current=nullcontext, synchronize=lambda: None)
    rotations = {case_id: Rotation(made, times_us) for case_id, times_us in TRUE_US.items()}
    recorder = Recorder(made)
    for module in (cupti, events, gpu, graph):
        for name, stand_in in {
            "CudaDevice": lambda: device,
            "bind_cases": lambda *_: rotations,
            "L2Flush": lambda: lambda: made.do(FILL, FLUSH_NS),
            "SmClock": lambda _stack: SimpleNamespace(read=lambda: (1980.0,)),
            "raise_clock": lambda _clock: None,
            "gc": SimpleNamespace(disable=lambda: None),
        }.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stand_in)
    monkeypatch.setattr("gdnbench.workers.device.is_alive", lambda _device: True)
    monkeypatch.setattr(cold, "DitherAndScrub", lambda seed: DitherAndScrub(made, seed))
    monkeypatch.setattr(
        cupti, "EmptyKernel", lambda name: SimpleNamespace(launch=lambda: made.do(f"gdnbench_{name}", 600))
    )
    monkeypatch.setattr("gdnbench.workers.launched.ActivityRecorder", lambda: recorder)
    monkeypatch.setattr(cupti, "BlockingKernel", lambda: BlockingKernel(made))
    _fake_graphs(monkeypatch, made)

    def run(module, **more):
        values = {"order": ((SHORT.id, LONG.id), (LONG.id, SHORT.id), (SHORT.id, LONG.id)), "first_round": 5}
        task = Task(
            Phase.MEASURE, "cuda", (), "decode", (SHORT, LONG), seed=1, step_limit_s=30.0,
            samples={SHORT.id: 30, LONG.id: 20}, clock=CLOCK[module], **{**values, **more},
        )  # fmt: skip
        found = Events()
        (gpu if module is cupti else module).measure_all(task, found)
        return found

    return SimpleNamespace(run=run, gpu=made, rotations=rotations, recorder=recorder)


def _fake_graphs(monkeypatch, gpu):
    """A graph is what its capture would have taken; its replay takes as long, and its pauses with it."""

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self, stream):
            self.at_ns = stream.now_ns

        def elapsed_time(self, end):
            return (end.at_ns - self.at_ns) / 1e6

    def capture(run, *, strict, pool):
        assert not strict
        assert pool == "pool"
        begin_ns = gpu.now_ns
        gpu.is_held = True  # a replay has no host
        outputs = run()
        gpu.is_held = False
        took_ns = gpu.now_ns - begin_ns
        gpu.captured.append(took_ns)

        def replay():
            gpu.now_ns += took_ns

        return SimpleNamespace(graph=SimpleNamespace(replay=replay), outputs=outputs)

    cuda = SimpleNamespace(Event=Event, graph_pool_handle=lambda: "pool")
    for module in (events, graph):
        monkeypatch.setattr(module, "torch", SimpleNamespace(cuda=cuda, cat=tuple))
    monkeypatch.setattr(graph, "list_ranges", tuple)
    monkeypatch.setattr(graph, "capture", capture)


def sampled(events):
    return [event for event in events if isinstance(event, Sampled)]


@pytest.mark.parametrize("plain", [False, True])
def test_cupti_gives_every_sample_of_every_round_its_true_time(worker, plain):
    found = sampled(worker.run(cupti, plain=plain))
    assert [(each.round, each.case) for each in found] == [
        (0, SHORT.id), (0, LONG.id), (5, LONG.id), (5, SHORT.id), (6, SHORT.id), (6, LONG.id),
    ]  # fmt: skip
    for each in found:
        is_short = each.case == SHORT.id
        expected = 1.0 if is_short else 2.0 + PAUSE_NS / 1e3 + 3.0
        assert each.times_us == pytest.approx([expected] * (30 if is_short else 20))
        assert each.sm_mhz == (1980.0,)
        assert each.checked == 2
        assert set(each.placements) == set(range(PLACES))
        assert len(each.placements) == len(each.times_us)
    assert worker.rotations[SHORT.id].opened == [0, 1, 2]
    assert worker.rotations[SHORT.id].judged == 3


def test_every_sample_is_scrubbed_unless_the_run_is_plain(worker):
    launches = 3 * (30 + 20 + 2 * WARM_UPS)
    worker.run(cupti)
    assert [what for what, *_ in worker.gpu.log] == ["scrub", "renew"] * launches
    worker.gpu.log.clear()
    worker.run(cupti, plain=True)
    assert [what for what, *_ in worker.gpu.log] == ["renew"] * launches


@pytest.mark.parametrize(
    ("blind", "unseen"), [("gdnbench_case", "no kernel of gdnbench's own"), (FILL, "no fill of gdnbench's own")]
)
def test_cupti_that_records_nothing_refuses_and_loses_no_case(worker, blind, unseen):
    worker.recorder.lose = lambda record: record.name == blind
    events = worker.run(cupti)
    assert isinstance(events[-1], Refused)
    assert unseen in events[-1].message
    assert events[-1].hint
    assert not sampled(events)


def test_a_case_whose_kernels_are_not_recorded_is_lost_with_the_reason(worker):
    worker.recorder.lose = lambda record: record.end_ns - record.start_ns == 1_000
    events = worker.run(cupti)
    assert events[-1] == Examined(SHORT.id, Status.FAILED, "CUPTI recorded 0 of 30 launches")


def test_a_round_whose_cases_cannot_be_told_apart_is_no_cases_fault(worker):
    marks = []

    def lose(record):
        if record.name == "gdnbench_case":
            marks.append(record)
        return len(marks) == 3  # the first is the trial's, the second and third are the first round's

    worker.recorder.lose = lose
    with pytest.raises(RuntimeError, match="1 of 2 cases"):
        worker.run(cupti)


@pytest.mark.parametrize("module", [cupti, graph, events])
def test_a_case_that_raises_is_lost_and_ends_the_worker(worker, module):
    worker.rotations[LONG.id].fails = True
    events = worker.run(module)
    assert events[-1] == Examined(LONG.id, Status.FAILED, "RuntimeError: no luck")
    assert LONG.id not in {each.case for each in sampled(events)}


@pytest.mark.parametrize("module", [cupti, graph, events])
def test_every_step_of_a_case_is_announced(worker, module):
    events = worker.run(module)
    for before, event in pairwise(events):
        if isinstance(event, Sampled):
            assert isinstance(before, StepBegun)
            assert before.case == event.case


@pytest.mark.parametrize("plain", [False, True])
def test_a_graph_gives_a_launch_its_time_and_what_a_node_adds(worker, plain):
    found = sampled(worker.run(graph, plain=plain))
    assert len(found) == 6
    for each in found:
        nodes_us = (1.0, 0.5) if each.case == SHORT.id else (2.0, 0.5, 3.0, 0.5)
        assert each.times_us == pytest.approx([sum(nodes_us)] * 6)
        assert each.checked == 2
        assert each.sm_mhz == (1980.0,)


def test_a_graph_visits_every_placement_and_scrubs_them_all(worker):
    worker.run(graph, order=((LONG.id,),))
    assert [what for what, *_ in worker.gpu.log] == ["scrub", *["renew"] * PLACES] * 6
    assert [place for what, place, *_ in worker.gpu.log[1 : PLACES + 1]] == list(range(PLACES))
    _, ranges, others = worker.gpu.log[0]
    *inputs, outputs = ranges
    assert inputs == list(range(PLACES))
    assert len(set(outputs)) == PLACES  # the last launch on each placement
    assert others == ()


@pytest.mark.parametrize("in_place", [False, True])
def test_events_give_a_call_what_the_host_takes_for_it_too(worker, in_place):
    for rotation in worker.rotations.values():
        rotation.is_in_place = in_place
    found = sampled(worker.run(events))
    assert len(found) == 6
    for each in found:
        launches_us = (1.0,) if each.case == SHORT.id else (2.0, 3.0)
        expected = sum(time_us + (HOST_NS + PAUSE_NS) / 1e3 for time_us in launches_us)
        assert each.times_us == pytest.approx([expected] * 10)
        assert (each.checked, each.sm_mhz) == (2, (1980.0,))
    renewed = PLACES if in_place else 1
    assert [what for what, *_ in worker.gpu.log] == ["renew"] * (6 * 10 * renewed)


def test_events_time_calls_at_one_placement_and_no_flush(worker):
    runs = []
    for placement in worker.rotations[SHORT.id].placements:
        placement.run = partial(lambda place: runs.append(place) or ("out",), placement.ranges)
    worker.run(events, order=((SHORT.id,),))
    assert runs == [place for loop in range(10) for place in [loop % PLACES] * events.CALLS]
    assert FILL not in {record.name for record in worker.gpu.records[:-2]}  # the judge has one


LAUNCHED = {SHORT.id: ("kernel",), LONG.id: ("kernel", "kernel")}


def test_what_launches_something_else_than_when_it_was_checked_has_no_time(worker):
    events = worker.run(cupti, launched={**LAUNCHED, LONG.id: ("scan", "gates")})
    assert events[-1] == Examined(
        LONG.id,
        Status.WRONG_WHEN_TIMED,
        "while timed it launches kernel (2 times); when checked it launched scan, gates",
    )
    assert [each.case for each in sampled(events)] == [SHORT.id]


def test_what_launches_something_else_from_a_later_round_on_has_no_more_times(worker):
    rotation = worker.rotations[LONG.id]
    rotation.open = lambda position, *_, **__: setattr(rotation, "_times_us", (2.0, 3.0) if position < 2 else (1.0,))
    events = worker.run(cupti, launched=LAUNCHED)
    assert events[-1].status is Status.WRONG_WHEN_TIMED
    assert events[-1].reason == "while timed it launches kernel; when checked it launched kernel (2 times)"
    assert [each.round for each in sampled(events) if each.case == LONG.id] == [0, 5]


def test_of_several_functions_each_ones_mean_time_is_told(worker):
    for placement in worker.rotations[LONG.id].placements:
        placement.run = partial(_two_functions, worker.gpu)
    found = sampled(worker.run(cupti))
    assert {each.case: each.functions_us for each in found} == {
        SHORT.id: {},
        LONG.id: {"gates": pytest.approx(2.0), "scan": pytest.approx(7.0)},
    }


def _two_functions(gpu, *_):
    for name, took_ns in (("gates", 2_000), ("void ns::scan<int>(int)", 3_000), ("scan", 4_000)):
        gpu.do(name, took_ns)
    return ("out",)
