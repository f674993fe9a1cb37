"""The preflight inside its worker, on the CPU: each way in which a kernel can be unfit, and what it leaves behind."""

from dataclasses import replace

import pytest
import torch
from bundled import CATALOG
from decode_workloads import decode_at
from run_data import Events
from write_kernels import on_torch, write_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.model.case import Case
from gdnbench.model.status import Status
from gdnbench.store.journal import Examined, StepBegun
from gdnbench.verify import examine as module
from gdnbench.verify.examine import LAUNCHES, examine_all
from gdnbench.workers.task import Phase, Task

WORKLOAD = decode_at(B=1, HQ=2, HV=4, K=32, V=16)
HEADER = "import torch\nfrom gdnbench.launch.numerics import load_file\nfrom pathlib import Path\n"
STEP = f"gdn_decode = load_file(Path({str(default_roots()[0])!r}) / 'decode/reference/kernel.py').gdn_decode\n"
BODY = "def step(t): return gdn_decode(t.q, t.k, t.v, t.state, t.A_log, t.dt_bias, t.a, t.b, t.scale)\n"
RIGHT = HEADER + STEP + BODY + "def bind(t, workload, params): return lambda: step(t)\n"
IN_PLACE = HEADER + STEP + BODY + (
    "def bind(t, workload, params):\n"
    "    def run():\n"
    "        output, state = step(t)\n"
    "        return output, t.state.copy_(state)\n"
    "    return run\n"
)  # fmt: skip
UNEQUAL = HEADER + STEP + BODY + (
    "calls = []\n"
    "def run(t):\n"
    "    output, state = step(t)\n"
    "    calls.append(None)\n"
    "    state.view(-1).view(torch.int32)[7] += len(calls) % 2\n"
    "    return output, state\n"
    "def bind(t, workload, params): return lambda: run(t)\n"
)  # fmt: skip
LOGGED = (
    HEADER + STEP + BODY + "import test_worker_examine as tests\n"
    "def run(t):\n"
    "    tests.LOG.append('launch')\n"
    "    tests.THREADS.append(torch.get_num_threads())\n"
    "    return step(t)\n"
    "def bind(t, workload, params): return lambda: run(t)\n"
)  # fmt: skip
LOG, THREADS = [], []
THREADED = RIGHT + (
    "import threading, time\n"
    "class Spinner:\n"
    "    def spin(self):\n"
    "        while True: time.sleep(0.01)\n"
    "def end(): pass\n"
    "threading.Thread(target=Spinner().spin, daemon=True).start()\n"
    "threading.Thread(target=end).start()\n"
)
KERNELS = {
    "right": (RIGHT, ""),
    "inplace": (IN_PLACE, ""),
    "unequal": (UNEQUAL, ""),
    "threaded": (THREADED, ""),
    "logged": (LOGGED, ""),
    "raises": (
        "def bind(t, workload, params):\n    def run(): raise ValueError('bad tile\\nmore')\n    return run\n",
        "",
    ),
    "noentry": ("", ""),
    "noimport": ("import a_module_that_is_not_there\n", ""),
    "bindfails": ("def bind(t, workload, params): raise KeyError('BV')\n", ""),
    "unwritten": ("def bind(t, workload, params): return lambda: (t.output, t.new_state)\n", ""),
    "onehead": (RIGHT, ", check=lambda workload: 'takes one head alone' if workload.HV > 1 else ''"),
    "badcheck": (RIGHT, ", check=lambda workload, params: ''"),
    "missing": (RIGHT, ", requires=(Requirement('module_from_nowhere', extra='far'),)"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("kernels")
    for name, (source, more) in KERNELS.items():
        write_kernel(root / "decode" / name, on_torch(f"decode-{name}", more), source)
    return root


def examine(root, *names, scenarios=()):
    """Every event of a worker that examines these kernels in turn, in some scenarios or in all."""
    roots = (default_roots()[0], root)
    catalog = load_catalog(roots)
    cases = tuple(Case(catalog.entries[name].default, WORKLOAD) for name in names)
    events = Events()
    task = Task(Phase.EXAMINE, "cpu", tuple(map(str, roots)), "decode", cases, seed=5, step_limit_s=9.0)
    examine_all(replace(task, scenarios={case.id: scenarios for case in cases} if scenarios else {}), events)
    return events


def verdicts(root, *names, scenarios=()):
    return [event for event in examine(root, *names, scenarios=scenarios) if isinstance(event, Examined)]


def test_a_case_is_verified_in_the_scenarios_that_the_task_names_for_it(root):
    [told] = verdicts(root, "decode-right", scenarios=("typical", "large-state"))
    assert [gate.scenario for gate in told.gates if gate.gate == "inputs unchanged"] == ["typical", "large-state"]
    [told] = verdicts(root, "decode-right")
    scenarios = CATALOG.ops["decode"].scenarios
    assert tuple(gate.scenario for gate in told.gates if gate.gate == "inputs unchanged") == scenarios


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("decode-right", Status.OK, ""),
        ("decode-inplace", Status.CHANGED_INPUT, "state unchanged"),
        ("decode-raises", Status.FAILED, "ValueError: bad tile"),
        ("decode-noentry", Status.BROKEN, "must define bind"),
        ("decode-noimport", Status.BROKEN, "a_module_that_is_not_there"),
        ("decode-bindfails", Status.BROKEN, "BV"),
        ("decode-unwritten", Status.UNWRITTEN, "written"),
        ("decode-onehead", Status.UNSUPPORTED, "takes one head alone"),
        ("decode-badcheck", Status.UNSUPPORTED, "its check failed: TypeError: "),
        ("decode-v4", Status.UNSUPPORTED, "needs a GPU"),
        ("decode-missing", Status.MISSING, "pip install 'gdnbench[far]'"),
    ],
)
def test_a_kernel_gets_the_status_of_its_first_failure(root, name, status, reason):
    (verdict,) = verdicts(root, name)
    assert verdict.status is status
    assert reason in verdict.reason
    assert "\n" not in verdict.reason


def test_a_right_kernel_passes_every_gate_of_every_scenario_and_is_timed(root):
    (verdict,) = verdicts(root, "decode-right")
    assert {gate.scenario for gate in verdict.gates} == {"typical", "saturated-gates", "large-state", "zero-b"}
    assert all(gate.passed for gate in verdict.gates)
    assert verdict.warm_us > 0


def test_launches_that_differ_within_the_gates_are_noted(root):
    right, unequal = verdicts(root, "decode-right", "decode-unequal")
    assert (right.status, right.notes) == (Status.OK, ())
    told = f"two launches on the same inputs differ in 1 of {4 * 16 * 32:,} elements of new_state"
    assert (unequal.status, unequal.notes) == (Status.OK, (told,))


@pytest.mark.parametrize("bad", ["decode-inplace", "decode-raises", "decode-noentry", "decode-unwritten"])
def test_a_bad_kernel_does_not_spoil_the_next_ones_inputs(root, bad):
    first, second = verdicts(root, bad, "decode-right")
    assert first.status is not Status.OK
    assert (second.status, second.reason) == (Status.OK, "")


def test_a_thread_that_is_left_behind_is_a_note_with_what_it_runs(root):
    threaded, next_one = verdicts(root, "decode-threaded", "decode-right")
    assert threaded.status is Status.OK
    (note,) = threaded.notes
    line = THREADED.splitlines().index("    def spin(self):") + 1
    assert note == f"a thread is left behind, which runs Spinner.spin (kernel.py:{line})"
    assert next_one.notes == ()


def test_every_case_is_announced_before_it_is_worked_on(root):
    events = examine(root, "decode-right", "decode-raises")
    announced = [event.case for event in events if isinstance(event, StepBegun)]
    concluded = [event.case for event in events if isinstance(event, Examined)]
    assert list(dict.fromkeys(announced)) == concluded
    assert all(event.limit_s >= 9.0 for event in events if isinstance(event, StepBegun))


def test_shared_memory_is_poisoned_just_before_each_launch_that_is_verified_and_no_other(root, monkeypatch):
    monkeypatch.setattr(module, "_nothing_to_poison", lambda: LOG.append("poison"))
    several = torch.get_num_threads() + 1
    torch.set_num_threads(several)
    LOG.clear()
    (verdict,) = verdicts(root, "decode-logged")
    assert verdict.status is Status.OK, verdict.reason
    torch.set_num_threads(several - 1)
    assert {*THREADS} == {1}  # as it is timed: what torch.compile makes of it is for that
    verified = ["poison", "launch"]
    assert ["launch", *(verified * 4), *(["launch"] * LAUNCHES), *(verified * 3)] == LOG
