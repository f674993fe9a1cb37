"""A run on a GPU whose workers are simulated: it measures the form that the preflight chose, and keeps to it."""

import pytest
from session_data import CATALOG, HealthyWorkers
from session_data import begin as begin_run

from gdnbench.measure.start import resume_session
from gdnbench.process.events import ignore
from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_clocks, read_measurements
from gdnbench.store.tables import read_builds
from gdnbench.workers.task import Phase

FLOOR = "decode-floor-copy"
TRUE_US = {FLOOR: 4.0, "decode-v4": 4.6, "decode-reference": 60.0}


class Workers(HealthyWorkers):
    """Of a floor's forms the one at `place` is the fastest; the round `stop_in` is where a run is stopped."""

    def __init__(self, place, stop_in=None):
        super().__init__()
        self.stored, self._place, self._stop_in = [], place, stop_in

    def params(self, task, case):
        return task.forms[case.id][self._place] if case.id in task.forms else {}

    def measure(self, task, on_event, folder):
        self.stored.append(of_floor(read_info(folder).cases))
        return super().measure(task, on_event, folder)

    def happens(self, _task, _case, number):
        if number == self._stop_in:
            raise KeyboardInterrupt

    def time_us(self, _task, case, place):
        return TRUE_US[case.variant.kernel] + 0.001 * place

    @property
    def tried(self):
        return next(task.forms for task in self.tasks if task.phase is Phase.EXAMINE)

    @property
    def measured(self):
        cases = [case.to_dict() for task in self.tasks if task.phase is Phase.MEASURE for case in task.cases]
        return of_floor(cases)


def of_floor(cases):
    return [case["params"] for case in cases if case["label"] == FLOOR]


@pytest.fixture
def employ(monkeypatch):
    return lambda place, stop_in=None: Workers(place, stop_in).employ(monkeypatch)


def begin(results, axes="B=1"):
    return begin_run(results, "decode-v4", axes, rounds=6, clocks=("cupti",), processes=2)


def test_the_chosen_form_is_what_every_process_and_clock_times_and_every_file_has(employ, tmp_path):
    workers = employ(-1)
    finished = begin(tmp_path).run()
    (forms,) = workers.tried.values()
    chosen, declared = forms[-1], forms[0]
    assert chosen != declared
    assert workers.measured[:4] == [chosen] * 4  # two processes by each clock; inputs are compared without floors
    assert workers.stored[:4] == [[chosen]] * 4  # whoever is killed now finds it in run.json
    assert of_floor(read_info(finished.path).cases) == [chosen]
    for rows in (read_measurements(finished.path), *read_clocks(finished.path).values()):
        assert [dict(row.case.variant.params) for row in rows if row.case.label == FLOOR] == [chosen]
    for row in finished.analysis.rows:
        words = " ".join(f"{name}={value}" for name, value in chosen.items())
        told = f"as {words}, faster here than as declared"
        assert row.warnings[:1] == ((told,) if row.case.label == FLOOR else ())
    assert [row.kernel for row in read_builds(finished.path)].count(FLOOR) == 1
    (v4,) = [row for row in finished.analysis.measurements if row.case.label == "decode-v4"]
    assert v4.timing.sol == pytest.approx(4.0 / 4.6, rel=0.01)


def test_the_declared_form_that_is_kept_changes_nothing(employ, tmp_path):
    workers = employ(0)
    session = begin(tmp_path)
    planned = session.cases
    finished = session.run()
    assert session.cases == planned
    assert not [warning for row in finished.analysis.rows for warning in row.warnings if "declared" in warning]
    assert workers.measured == [workers.tried[next(iter(workers.tried))][0]] * 4
    assert finished.info.complete


def test_a_run_that_is_taken_up_keeps_its_form_and_tries_no_other(employ, tmp_path):
    first = employ(-1, stop_in=2)
    stopped = begin(tmp_path).run()
    chosen = first.measured[0]
    second = employ(0)
    finished = resume_session(CATALOG, tmp_path, stopped.info.run_id, ignore).run()
    assert second.tried == {}
    assert second.measured == [chosen] * len(second.measured)
    assert of_floor(read_info(finished.path).cases) == [chosen]
    assert finished.info.complete


def test_a_run_that_was_stopped_before_the_floor_was_timed_tries_anew(employ, tmp_path):
    first = employ(-1, stop_in=0)
    stopped = begin(tmp_path).run()
    second = employ(1)
    resume_session(CATALOG, tmp_path, stopped.info.run_id, ignore).run()
    assert second.tried == first.tried
    (forms,) = second.tried.values()
    assert second.measured == [forms[1]] * 4
