"""A run of kernels whose warpgroup products ptxas serializes, or does not, on a GPU whose workers are simulated."""

from pathlib import Path

import pytest

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.measure import measure, preflight
from gdnbench.measure.opening import begin_session
from gdnbench.measure.plan import make_plan
from gdnbench.measure.protocol import Examined, HostTimes, Phase, Sampled, Started
from gdnbench.measure.request import Settings, make_request
from gdnbench.measure.supervision import WorkerEnd, WorkerOutcome
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.process.events import ignore
from gdnbench.store.builds import read_builds
from gdnbench.store.measurements import read_measurements

pytestmark = pytest.mark.slow

CATALOG = load_catalog([default_roots()[0], Path(__file__).parent / "data" / "binary" / "kernels"])
GPU = Gpu(0, "NVIDIA H200", "GPU-00000000-0000-0000-0000-000000000000", (9, 0), 132, 150 << 30)
SERIALIZED, SOUND = "test-warpgroup:TOUCHED=1", "test-warpgroup:PRODUCTS=1"
WHY = "insufficient register resources for the wgmma pipeline"
NOTE = f"ptxas serializes the wgmma: {WHY}"


def work(task, folder, name, environment, on_event, _stop=None, warm=None):
    """Stands in for `supervise`: every case is healthy and takes 60 µs."""
    task.write(folder / f"{name}.json")
    (folder / f"{name}.log").write_text("")
    if task.phase is Phase.EXAMINE:
        on_event(Started("NVIDIA H200", 132, 60 << 20))
        for case in task.cases:
            on_event(Examined(case.id, Status.OK, launches=1, warm_us=60.0))
        return WorkerOutcome(WorkerEnd.FINISHED)
    for position, ids in enumerate(task.order):
        for number, case_id in enumerate(ids):
            on_event(Sampled(task.round_number(position), case_id, (60.0 + 0.001 * number,) * 4, (1980.0,)))
    on_event(HostTimes({}))
    return WorkerOutcome(WorkerEnd.FINISHED)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The folder of a run of both kernels, the decode reference beside them."""
    monkeypatch.setattr(measure, "supervise", work)
    monkeypatch.setattr(preflight, "supervise", work)
    monkeypatch.setattr("gdnbench.store.files._hold", lambda _path: None)
    monkeypatch.setattr("gdnbench.measure.opening.select_gpu", lambda *_: GPU)
    settings = Settings(rounds=4, samples=20, processes=1)
    request = make_request(
        CATALOG, "decode", f"{SERIALIZED},{SOUND}", axes="B=1", baseline="decode-reference", settings=settings
    )
    return begin_session(CATALOG, make_plan(CATALOG, request, GPU), tmp_path, ignore).run().path


def test_the_note_stands_beside_the_kernels_time_and_the_reason_with_its_build(run, command_line):
    noted = {row.case.label: NOTE in row.warnings for row in read_measurements(run)}
    assert noted.pop(SERIALIZED)
    assert SOUND in noted
    assert not any(noted.values())
    reasons = {row.label: row.serialized_because for row in read_builds(run)}
    assert (reasons[SERIALIZED], reasons[SOUND]) == (WHY, "")
    code, out, _ = command_line("show", str(run))
    assert code == 0
    assert f"{SERIALIZED}: {NOTE}" in " ".join(out.split())
    assert out.count("ptxas serializes") == 1
