"""Steps without a GPU: the plan, the C loop on a driver made up, workers made up, and what is stored and shown."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from bundled import CATALOG
from committed import RESULTS
from simulated_workers import GPU

from gdnbench.codegen.builds import Builds
from gdnbench.errors import MachineError, UsageError
from gdnbench.model.status import Status
from gdnbench.process.events import ignore
from gdnbench.step.measure import measure_plan
from gdnbench.step.plan import L2, Quantity, StepPlan, StepSettings, StepTask, Way, make_cases, requested_cases
from gdnbench.step.worker.loop import CLoop, Launch, NoCompilerError, build_loop, listed
from gdnbench.store.info import read_info
from gdnbench.store.journal import Examined, Sampled
from gdnbench.store.tables import read_steps
from gdnbench.workers.supervision import WorkerEnd, WorkerOutcome, supervise

RUN, STEP = "20261124-041446-h200-decode-v10", "20261124-044459-h200-decode-step"
KERNELS = "decode-v9,decode-v9-pdl,decode-v9-layers"
SETTINGS = StepSettings(rounds=9, samples=4, processes=3, seed=1)
STEP_US = {Way.PYTHON: 9.0, Way.C_LOOP: 5.0, Way.GRAPH: 4.0, Way.GRAPH_PDL: 3.0, Way.PERSISTENT: 2.5}


def make_plan(kernels=KERNELS, axes="B=1", paths=tuple(Way), conditions=(L2.RESIDENT,), settings=SETTINGS):
    asked = requested_cases(CATALOG, "", kernels, axes)
    cases = make_cases(asked, CATALOG.entries, paths, conditions, settings)
    return StepPlan(CATALOG, CATALOG.ops["decode"], GPU, cases, settings)


class SimulatedChains:
    """Stands in for `supervise`: chains take what `STEP_US` says, with the noise of a round; some fail, or kill it.

    What dies does so after a round, so that there are times which are not checked again.
    """

    def __init__(self, broken=(), dies_on=""):
        self.broken, self.dies_on = broken, dies_on

    def __call__(self, _module, task, folder, name, _environment, on_event, _stop=None, warm=None, waiting=None):
        task.write(folder / f"{name}.json")
        assert StepTask.read(folder / f"{name}.json") == task
        for id_ in self.broken:
            on_event(Examined(id_, Status.WRONG_NUMBERS, "far off"))
        random = np.random.default_rng(task.first_round)
        by_id = {case.id: case for case in task.cases if case.id not in self.broken}
        for position, ids in enumerate(task.order):
            for id_ in ids:
                if id_ == self.dies_on and position > 1:
                    return WorkerOutcome(WorkerEnd.DIED, id_, "it died", "measure")
                if id_ in by_id:
                    base = STEP_US[by_id[id_].path] * random.normal(1, 0.002)
                    for quantity, factor in zip(Quantity, (1.0, 0.8, 0.5, 0.6), strict=True):
                        times = tuple(base * factor * random.normal(1, 0.002, size=4))
                        on_event(Sampled(task.round_number(position), by_id[id_].of(quantity), times))
        return WorkerOutcome(WorkerEnd.FINISHED)


def measured(tmp_path, chains=None, **asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdnbench.measure.timing.supervise", chains or SimulatedChains())
        patch.setattr("gdnbench.step.measure.build_cases", lambda *_: Builds())
        finished = measure_plan(make_plan(**asked), tmp_path / "results", ignore)
    return finished, read_steps(finished.path)


def test_every_kernel_is_measured_by_every_path_that_it_has_and_the_first_twice():
    cases = make_plan().cases
    assert len(cases) == 3 * 5 + 1
    refused = {(each.variant.label, each.path) for each in cases if each.refusal}
    assert refused == {
        ("decode-v9", Way.GRAPH_PDL),
        ("decode-v9", Way.PERSISTENT),
        ("decode-v9-pdl", Way.PERSISTENT),
        ("decode-v9-layers", Way.GRAPH_PDL),
    }
    assert [each.variant.label for each in cases if each.is_again] == ["decode-v9"]
    assert len({each.id for each in cases}) == len(cases)


def test_windows_travel_with_launches_that_can_have_them():
    refused = {
        each.path for each in make_plan(conditions=(L2.PERSISTING,), kernels="decode-v9-pdl").cases if each.refusal
    }
    assert refused == {Way.PYTHON, Way.PERSISTENT}


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": 1}, {"layers": 10_000}, {"between_mib": -1.0}, {"between_mib": float("nan")},
        {"rounds": 1}, {"samples": 0}, {"processes": 0}, {"processes": 10},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_measured_with_are_refused(wrong):
    with pytest.raises(UsageError):
        replace(SETTINGS, **wrong)


def test_rows_have_what_the_workers_measured(tmp_path):
    finished, rows = measured(tmp_path)
    assert finished.path.name.endswith("-decode-step")
    by = {(row.label, row.path): row for row in rows if not row.is_again}
    row = by["decode-v9", "graph"]
    assert row.step_us == pytest.approx(4.0, rel=0.01)
    assert row.step_lo_us < row.step_us < row.step_hi_us
    assert row.gap_us == pytest.approx(0.2 * 4.0 * 1.0 - 0.0, abs=1.3)
    assert row.waits_us == pytest.approx(0.2 * 4.0, rel=0.05)
    assert (row.versus, row.verdict, row.rounds, row.processes) == ("python", "faster", 9, 3)
    assert row.speedup == pytest.approx(9 / 4, rel=0.01)
    assert row.saved_us == pytest.approx(5.0, rel=0.01)
    again = next(each for each in rows if each.is_again)
    assert again.versus == "itself"
    assert again.speedup == pytest.approx(1.0, rel=0.01)
    assert read_info(finished.path).complete


def test_a_wrong_case_has_a_reason_and_no_time(tmp_path):
    broken = {each.id for each in make_plan().cases if each.path is Way.GRAPH}
    finished, rows = measured(tmp_path, SimulatedChains(broken=broken))
    wrong = [row for row in rows if row.path == "graph"]
    assert {(row.status, row.reason, row.step_us) for row in wrong} == {(Status.WRONG_NUMBERS, "far off", None)}
    assert all(row.step_us for row in rows if row.path in {"python", "c-loop"})
    assert Status.WRONG_NUMBERS in finished.statuses


def test_a_case_that_takes_its_worker_down_loses_its_time_and_that_workers(tmp_path):
    lost = next(each.id for each in make_plan().cases if each.path is Way.C_LOOP)
    _, rows = measured(tmp_path, SimulatedChains(dies_on=lost))
    assert {row.status for row in rows if row.path == "c-loop" and row.label == "decode-v9"} == {Status.CRASHED}
    assert {(row.rounds, row.processes) for row in rows if row.status is Status.OK} == {(9, 3)}


def test_a_worker_that_cannot_work_says_where(tmp_path):
    """No machine has the GPU that is made up."""
    with pytest.raises(MachineError, match=r"^task\.py:\d+: \w+Error: "):
        measured(tmp_path, supervise)
    assert not any((tmp_path / "results").iterdir())


def test_a_worker_that_ends_early_without_a_reason_is_the_machines_fault(tmp_path):
    with pytest.raises(MachineError):
        measured(tmp_path, lambda *_, **__: WorkerOutcome(WorkerEnd.FINISHED))
    assert not any((tmp_path / "results").iterdir())


@pytest.fixture
def stored(tmp_path):
    """A run and a step that is later."""
    for name in (RUN, STEP):
        shutil.copytree(RESULTS / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("words", [("compare", RUN), ("report",), ("show", RUN), ("show", "--contest")], ids=str)
def test_a_step_is_not_taken_for_a_damaged_run(stored, command_line, words):
    code, _, err = command_line(*words, STEP, "--out", stored)
    assert code == 2
    told = " ".join(err.split())
    assert f"{STEP} is a step: it has no times of kernels by themselves" in told
    assert f"hint: gdnbench show {STEP}" in told


def test_a_step_without_its_table_is_no_empty_one(tmp_path, command_line):
    finished, _ = measured(tmp_path)
    table = finished.path / "step.csv"
    out = ("--out", str(tmp_path / "results"))
    header, *_ = table.read_text().splitlines()
    table.write_text(f"{header}\n")
    code, shown, err = command_line("show", *out)
    assert (code, shown) == (2, "")
    assert "step.csv has no rows" in " ".join(err.split())
    table.unlink()
    code, shown, err = command_line("show", *out)
    assert (code, shown) == (2, "")
    assert "step.csv is missing" in " ".join(err.split())


def test_a_step_of_nothing_that_can_be_measured_leaves_no_run(tmp_path):
    with pytest.raises(UsageError, match="nothing of this can be measured: it has no function that goes over all"):
        measured(tmp_path, kernels="decode-v9", paths=(Way.PERSISTENT,))
    assert not (tmp_path / "results").exists()


STUB = r"""
#include <stdio.h>
#include <stdint.h>
#include <string.h>
static void say(const char *text) { FILE *f = fopen(LOG, "a"); fputs(text, f); fclose(f); }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned s,
                   void *stream, void **args, void **extra) {
  char line[200];
  snprintf(line, 200,
           "plain %d grid %u %u %u block %u shared %u stream %d first %d\n", (int)(intptr_t)f, gx, gy, gz, bx,
           s, (int)(intptr_t)stream, *(int *)args[0]);
  say(line);
  return (intptr_t)f == 99 ? 1 : 0;
}
int cuLaunchKernelEx(const void *config, void *f, void **args, void **extra) {
  const char *c = config;
  const unsigned *sizes = config;
  void *stream; memcpy(&stream, c + 32, 8);
  const char *attributes; memcpy(&attributes, c + 40, 8);
  unsigned count; memcpy(&count, c + 48, 4);
  char line[300];
  int n = snprintf(line, 300, "ex %d grid %u block %u stream %d:", (int)(intptr_t)f, sizes[0], sizes[3],
                   (int)(intptr_t)stream);
  for (unsigned i = 0; i < count; ++i) {
    int id, flag; memcpy(&id, attributes + 72 * i, 4); memcpy(&flag, attributes + 72 * i + 8, 4);
    n += snprintf(line + n, 300 - n, " %d", id);
    if (id == 1) {
      uint64_t bytes; float ratio; int hit;
      memcpy(&bytes, attributes + 72 * i + 16, 8); memcpy(&ratio, attributes + 72 * i + 24, 4);
      memcpy(&hit, attributes + 72 * i + 28, 4);
      n += snprintf(line + n, 300 - n, "=%d/%d/%.2f/%d", flag, (int)bytes, ratio, hit);
    } else n += snprintf(line + n, 300 - n, "=%d", flag);
  }
  strcat(line, "\n");
  say(line);
  return 0;
}
static int value = 7;
static void *arguments[1] = {&value};
int cuGraphKernelNodeGetParams_v2(void *node, void *params) {
  unsigned sizes[7] = {5, 1, 1, 128, 1, 1, 64};
  void *kernel = node;
  memcpy((char *)params + 8, sizes, 28);
  void **at = arguments;
  memcpy((char *)params + 40, &at, 8);
  memcpy((char *)params + 56, &kernel, 8);
  return 0;
}
"""


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """The C loop on a driver that writes down what it is asked for, and that file."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "cache"))
    source, log = tmp_path / "stub.c", tmp_path / "log"
    source.write_text(STUB)
    library = tmp_path / f"libstub-{tmp_path.name}.so"
    subprocess.run([compiler, "-shared", "-fPIC", f'-DLOG="{log}"', "-o", library, source], check=True)
    return CLoop(str(library)), log


def test_the_c_loop_launches_what_a_graphs_nodes_say(loop):
    launches, log = [loop[0].read_node(node) for node in (11, 12)], loop[1]
    loop[0].launch_plain(listed(launches), 3)
    assert log.read_text().splitlines() == [
        f"plain {number} grid 5 1 1 block 128 shared 64 stream 3 first 7" for number in (11, 12)
    ]


def test_attributes_stand_where_the_driver_reads_them(loop):
    first, second = (loop[0].read_node(node) for node in (1, 2))
    second.programmatic = 1
    second.window_base, second.window_bytes, second.hit_ratio = 4096, 1 << 20, 0.25
    last = Launch(function=3, arguments=first.arguments, grid=(9, 1, 1), block=(32, 1, 1), cooperative=1)
    loop[0].launch_extended(listed([first, second, last]), 3)
    assert loop[1].read_text().splitlines() == [
        "ex 1 grid 5 block 128 stream 3:",
        "ex 2 grid 5 block 128 stream 3: 6=1 1=4096/1048576/0.25/2",
        "ex 3 grid 9 block 32 stream 3: 2=1",
    ]


def test_a_launch_that_the_driver_refuses_is_told(loop):
    refused = loop[0].read_node(99)
    with pytest.raises(Exception, match="cuLaunchKernel of the C loop returned 1"):
        loop[0].launch_plain(listed([refused]), 3)


def test_without_a_compiler_there_is_no_c_loop(tmp_path, monkeypatch):
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NoCompilerError):
        build_loop()
