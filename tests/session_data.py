"""Runs from the request to the files, on a GPU whose workers are simulated."""

import os
from collections import Counter
from dataclasses import replace

from bundled import CATALOG

from gdnbench.catalog.request import make_request
from gdnbench.measure.plan import make_plan
from gdnbench.measure.start import begin_session
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.process.events import ignore
from gdnbench.store.journal import Examined, HostTimes, PassBegun, Sampled, Started
from gdnbench.store.settings import Settings
from gdnbench.workers.supervision import WorkerEnd, WorkerOutcome
from gdnbench.workers.task import Phase

# Each process of the tests has a GPU of its own, as runs on one GPU wait for each other.
GPU = Gpu(0, "NVIDIA H200", f"GPU-{os.getpid():08x}-0000-0000-0000-000000000000", (9, 0), 132, 150 << 30)


class HealthyWorkers:
    """Stands in for `supervise`: every case is healthy and takes its time, of which each sample has four.

    `tasks` has one for each pass of a worker, `started` the numbers of workers.
    """

    def __init__(self):
        self.tasks, self.started = [], Counter()

    def __call__(self, _module, task, folder, name, _environment, on_event, _stop=None, warm=None, waiting=None):
        assert len(self.tasks) < 30, "starts workers for ever"
        task.write(folder / f"{name}.json")
        (folder / f"{name}.log").write_text("")
        self.started[task.phase] += 1
        if task.phase is Phase.EXAMINE:
            self.tasks.append(task)
            on_event(Started(GPU.name, 132, 60 << 20))
            for case in task.cases:
                on_event(Examined(case.id, Status.OK, launches=1, warm_us=3.0, params=self.params(task, case)))
            return WorkerOutcome(WorkerEnd.FINISHED)
        for number, each in enumerate(task.passes()):
            on_event(PassBegun(number))
            of_pass = {id_ for ids in each.order for id_ in ids}
            self.tasks.append(replace(each, cases=tuple(case for case in task.cases if case.id in of_pass)))
            outcome = self.measure(self.tasks[-1], on_event, folder)
            if outcome.end is not WorkerEnd.FINISHED:
                return outcome
        return WorkerOutcome(WorkerEnd.FINISHED)

    def measure(self, task, on_event, _folder):
        by_id = {case.id: case for case in task.cases}
        for position, ids in enumerate(task.order):
            for place, case_id in enumerate(ids):
                number = task.round_number(position)
                if end := self.happens(task, by_id[case_id], number):
                    return WorkerOutcome(end, case_id, "it was told to")
                time_us = self.time_us(task, by_id[case_id], place)
                on_event(Sampled(number, case_id, (time_us,) * 4, (1980.0,)))
        if task.clock is None:
            on_event(HostTimes(dict.fromkeys(by_id, 2.5)))
        return WorkerOutcome(WorkerEnd.FINISHED)

    def params(self, _task, _case):
        """Those of the form that is chosen."""
        return {}

    def happens(self, _task, _case, _number):
        """How the worker ends there, if it does; what stops the run is raised."""

    def time_us(self, _task, _case, place):
        return 60.0 + 0.001 * place

    def employ(self, monkeypatch):
        """Has all sessions of the test employ these workers, and this process stand in for several."""
        for path in ("measure.timing", "verify.preflight"):
            monkeypatch.setattr(f"gdnbench.{path}.supervise", self)
        monkeypatch.setattr("gdnbench.measure.start._warm", lambda _gpu: None)
        monkeypatch.setattr("gdnbench.store.files._hold", lambda _path: None)
        monkeypatch.setattr("gdnbench.measure.start.select_gpu", lambda *_: GPU)
        return self


def begin(results, kernels, axes="B=1", catalog=CATALOG, gpu=GPU, observer=None, **settings):
    """Begins a run beside the decode reference."""
    request = make_request(
        catalog, "decode", kernels, axes=axes, baseline="decode-reference", settings=Settings(samples=100, **settings)
    )
    return begin_session(catalog, make_plan(catalog, request, gpu), results, observer or ignore)
