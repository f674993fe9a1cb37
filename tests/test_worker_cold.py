"""What is done around samples on a GPU, as far as it goes without one."""

from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from faults import REPOSITORY

from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.case import Case
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Shape
from gdnbench.store.journal import Examined
from gdnbench.verify import forms as trials
from gdnbench.verify.forms import TRIAL_PLACEMENTS, ColdLaunches, FormTrial
from gdnbench.verify.rotation import Workspaces
from gdnbench.workers import cold, launched, placement
from gdnbench.workers.cold import DitherAndScrub
from gdnbench.workers.device import CudaDevice
from gdnbench.workers.launched import PersistingL2
from gdnbench.workers.task import Phase, Task


def test_ranges_are_the_addresses_and_sizes_in_bytes(monkeypatch):
    on_cpu = SimpleNamespace(tensor=lambda rows, dtype, device: torch.tensor(rows, dtype=dtype), int64=torch.int64)
    monkeypatch.setattr(placement, "torch", on_cpu)
    tensors = [torch.zeros(3, 5, dtype=torch.bfloat16), torch.zeros(7)]
    listed = placement.list_ranges(iter(tensors))
    assert listed.dtype == torch.int64
    assert listed.tolist() == [[tensors[0].data_ptr(), 30], [tensors[1].data_ptr(), 28]]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("source", "names"),
    [
        (cold.DEMOTE_SOURCE, ("gdnbench_demote_listed", "gdnbench_demote_one")),
        (cold.BLOCKING_SOURCE, ("gdnbench_block",)),
        (cold.SHARED_POISON_SOURCE, ("gdnbench_poison_shared",)),
    ],
)
def test_what_is_launched_around_samples_compiles_for_every_gpu(source, names, arch):
    from cuda.core import Program, ProgramOptions

    code = Program(source, "c++", ProgramOptions(arch=arch)).compile("cubin", name_expressions=names)
    assert all(name.encode() in code.code for name in names)


@pytest.fixture
def around(monkeypatch):
    """Makes a `DitherAndScrub` whose launches are counted; what is scrubbed is kept."""
    launched, scrubbed = [], []
    code = SimpleNamespace(get_kernel=lambda name: name)
    device = SimpleNamespace(set_current=lambda: None, arch="90")
    stream = SimpleNamespace(from_handle=lambda handle: handle)
    cuda = SimpleNamespace(current_device=lambda: 0, current_stream=lambda: SimpleNamespace(cuda_stream=77))
    for name, stand_in in {
        "torch": SimpleNamespace(cuda=cuda),
        "Device": lambda _number: device,
        "_compile": lambda _source, _arch: code,
        "Stream": stream,
        "launch": lambda *arguments: launched.append(arguments),
    }.items():
        monkeypatch.setattr(cold, name, stand_in)
    monkeypatch.setattr(cold, "L2Scrubber", lambda: lambda *tensors: scrubbed.append(tensors))
    return lambda seed: (DitherAndScrub(seed), launched, scrubbed)


def _dithers(around, seed, samples=800):
    hooks, launched, _ = around(seed)
    counts = []
    for _ in range(samples):
        launched.clear()
        hooks.before()
        counts.append(len(launched))
    return counts


def test_before_a_sample_there_are_up_to_seven_empty_launches_each_as_often(around):
    counts = Counter(_dithers(around, seed=1))
    assert sorted(counts) == list(range(8))
    assert min(counts.values()) > 60


def test_empty_launches_go_to_the_stream_that_is_timed(around):
    hooks, launched, scrubbed = around(seed=1)
    for _ in range(20):
        hooks.before()
    assert {(stream, kernel) for stream, _, kernel in launched} == {(77, "gdnbench_nothing")}
    assert scrubbed == []


def test_after_a_sample_its_inputs_and_outputs_are_scrubbed(around):
    hooks, launched, scrubbed = around(seed=1)
    hooks.after("ranges", ("output", "new_state"))
    assert scrubbed == [("ranges", ("output", "new_state"))]
    assert launched == []


STREAM = 7
OK, REFUSED = launched.driver.CUresult.CUDA_SUCCESS, launched.driver.CUresult.CUDA_ERROR_UNSUPPORTED_LIMIT


class Driver:
    """A context with one stream; `status` is what each call answers."""

    CUresult = launched.driver.CUresult

    def __init__(self):
        self.status, self.limit, self.window, self.resets = OK, 0, (0, 0, 0.0), 0

    def cuStreamGetAttribute(self, stream, _attribute):
        assert stream == STREAM
        base, nbytes, ratio = self.window
        window = SimpleNamespace(base_ptr=base, num_bytes=nbytes, hitRatio=ratio)
        return self.status, SimpleNamespace(accessPolicyWindow=window)

    def cuStreamSetAttribute(self, stream, _attribute, value):
        assert stream == STREAM
        window = value.accessPolicyWindow
        self.window = (window.base_ptr, window.num_bytes, window.hitRatio)

    def cuCtxGetLimit(self, _limit):
        return self.status, self.limit

    def cuCtxSetLimit(self, _limit, value):
        self.limit = value

    def cuCtxResetPersistingL2Cache(self):
        self.resets += 1


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(launched, "driver", made)
    return made


def test_what_stays_as_it_was_is_no_change(driver):
    driver.limit = 4096
    l2 = PersistingL2(STREAM)
    assert l2.changes() == ()
    assert (driver.limit, driver.resets) == (4096, 0)


def test_a_limit_is_told_and_put_back(driver):
    l2 = PersistingL2(STREAM)
    driver.limit = 1 << 20
    assert l2.changes() == ("1,048,576 bytes of it for lines that persist",)
    assert (driver.limit, driver.resets) == (0, 1)
    assert l2.changes() == ()


@pytest.mark.parametrize("window", [(4096, 65536, 1.0), (4096, 1024, 0.5)])
def test_a_window_is_told_and_put_back(driver, window):
    driver.window = (4096, 1024, 1.0)
    l2 = PersistingL2(STREAM)
    driver.window = window
    assert l2.changes() == (f"an access-policy window of {window[1]:,} bytes on the stream",)
    assert (driver.window, driver.resets) == ((4096, 1024, 1.0), 1)


def test_a_driver_that_does_not_tell_is_no_change(driver):
    driver.status = REFUSED
    never = PersistingL2(STREAM)
    driver.status = OK
    l2 = PersistingL2(STREAM)
    driver.limit = 1
    assert never.changes() == ()
    driver.status = REFUSED
    assert l2.changes() == ()


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
        monkeypatch.setattr(trials, name, stand_in)
    monkeypatch.setattr(trials, "SmClock", lambda _stack: None)
    monkeypatch.setattr(trials, "raise_clock", made.note("raise"))
    monkeypatch.setattr(trials.torch.cuda, "Event", Event)
    monkeypatch.setattr(placement, "list_ranges", lambda _tensors: None)
    load = trials.load

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

    monkeypatch.setattr(trials, "load", noting_load)
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
    monkeypatch.setattr(ColdLaunches, "time_us", lambda *_: 1 / 0)
    verdict = trial_of((0, 1))[1]()
    assert (verdict.status, verdict.poisoned) == (Status.OK, False)
    assert "its forms cannot be timed: ZeroDivisionError" in verdict.notes[-1]
    assert verdict.params == trial_of((0,))[1]().params
