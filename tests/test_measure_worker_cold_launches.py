"""The trial of forms on a GPU that is not there: what is enqueued around each launch, and in which order."""

from contextlib import nullcontext

import pytest
from faults import REPOSITORY

from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.case import Case
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Shape
from gdnbench.store.journal import Examined
from gdnbench.verify.forms import TRIAL_PLACEMENTS, ColdLaunches, FormTrial
from gdnbench.verify.rotation import Workspaces
from gdnbench.workers import cold, placement
from gdnbench.workers.device import CudaDevice
from gdnbench.workers.task import Phase, Task

ROOT = REPOSITORY / "tests" / "floor_forms"
FORM_US = {0: 5.0, 1: 4.9, 2: 4.96}


class Gpu:
    """Stands in for torch's events and gdnbench's own kernels; keeps what is called, and the form launched last."""

    def __init__(self):
        self.calls, self.form = [], None

    def note(self, name):
        return lambda *_: self.calls.append(name)


class NoDevice(CudaDevice):
    def __init__(self):
        self.stream = None

    def current(self):
        return nullcontext()

    def synchronize(self):
        pass


@pytest.fixture
def gpu(monkeypatch):
    made = Gpu()

    class Flush:
        def __call__(self):
            made.calls.append("flush")

    class Block:
        enqueue, release = staticmethod(made.note("block")), staticmethod(made.note("release"))

    class Between:
        before, after = staticmethod(made.note("dither")), staticmethod(made.note("scrub"))

        def __init__(self, _seed):
            pass

    class Event:
        record, synchronize = staticmethod(made.note("record")), staticmethod(made.note("wait"))

        def __init__(self, **_):
            pass

        def elapsed_time(self, _end):
            return FORM_US[made.form] * 1e-3

    for name, stand_in in {"L2Flush": Flush, "BlockingKernel": Block, "DitherAndScrub": Between}.items():
        monkeypatch.setattr(cold, name, stand_in)
    monkeypatch.setattr(cold, "SmClock", lambda _stack: None)
    monkeypatch.setattr(cold, "raise_clock", made.note("raise"))
    monkeypatch.setattr(cold.torch.cuda, "Event", Event)
    monkeypatch.setattr(placement, "list_ranges", lambda _tensors: None)
    load = placement.load

    def noting_load(entry, variant, workload):
        bind = load(entry, variant, workload)

        def noting_bind(workspace):
            run = bind(workspace)

            def launch():
                made.calls.append("launch")
                made.form = variant.params["FORM"]
                return run()

            return launch

        return noting_bind

    monkeypatch.setattr("gdnbench.verify.forms.load", noting_load)
    return made


def trial_of(forms):
    op = load_catalog([ROOT]).ops["moves"]
    case = Case(load_catalog([ROOT]).entries["moves-floor"].default, op.workload(Shape(N=64)), Role.FLOOR)
    tried = {case.id: tuple({"FORM": form} for form in forms)}
    task = Task(Phase.EXAMINE, "cpu", (str(ROOT),), "moves", (case,), seed=1, step_limit_s=1.0, forms=tried)
    channel = type("Channel", (), {"send": lambda *_: None})()
    trial = FormTrial(task, channel, NoDevice(), Workspaces(task))
    return trial, lambda: trial.conduct(case, lambda form: Examined(form.id, Status.OK, warm_us=3.0))


@pytest.mark.parametrize(("forms", "chosen"), [((0, 1, 2), 1), ((0, 2), 0), ((1, 0, 2), 1)])
def test_the_form_that_is_fastest_cold_is_chosen_if_it_is_clearly_so(gpu, forms, chosen):
    _, conduct = trial_of(forms)
    verdict = conduct()
    assert (verdict.status, verdict.params) == (Status.OK, {"FORM": chosen})


def test_each_launch_is_flushed_blocked_dithered_and_timed_alone(gpu):
    _, conduct = trial_of((0, 1))
    conduct()
    begin = gpu.calls.index("raise") + 1
    assert gpu.calls[: begin - 1] == ["launch"] * 2 * TRIAL_PLACEMENTS  # each form at each placement, once
    launches = gpu.calls[begin:]
    once = ["flush", "block", "dither", "record", "launch", "record", "release", "scrub", "wait"]
    assert launches == once * (len(launches) // len(once))
    conduct()
    assert gpu.calls.count("raise") == 2  # the GPU has waited for the next case's preflight


def test_a_launch_that_raises_does_not_leave_the_stream_blocked(gpu):
    class Raising:
        def next_placement(self):
            return type("Placement", (), {"run": staticmethod(lambda: 1 / 0)})()

    with pytest.raises(ZeroDivisionError):
        ColdLaunches(NoDevice(), 1).time_us(Raising())
    assert gpu.calls[-1] == "release"


def test_where_forms_cannot_be_timed_the_declared_one_is_measured_with_a_note(gpu, monkeypatch):
    monkeypatch.setattr(cold.ColdLaunches, "time_us", lambda *_: 1 / 0)
    verdict = trial_of((0, 1))[1]()
    assert (verdict.status, verdict.poisoned) == (Status.OK, False)
    assert "its forms cannot be timed: ZeroDivisionError" in verdict.notes[-1]
    assert verdict.params == trial_of((0,))[1]().params
