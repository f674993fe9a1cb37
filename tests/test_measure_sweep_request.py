"""What a user asks a sweep for, and which stopped sweep it goes on with."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from decode_workloads import decode_at
from simulated_gpu import SimulatedGpu
from write_kernels import write_kernel

from gdnbench.analyse.conclude import conclude
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.errors import ExitCode, UsageError
from gdnbench.measure import run as run_module
from gdnbench.measure.plan import choose_sweep_settings, make_plan, make_sweep_request, parse_duration
from gdnbench.measure.start import begin_session, resume_session
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Role, Status
from gdnbench.process.events import ignore
from gdnbench.store.files import Journal
from gdnbench.store.info import read_info
from gdnbench.store.journal import Examined, Sampled, encode
from gdnbench.store.tables import read_sweep

OP = default_roots()[0] / "decode" / "op.py"
DECLARATION = """from gdnbench import Param, TorchKernel
kernel = TorchKernel(
    name='decode-{0}',
    params={{'BV': Param(default=8, choices=(4, 8)), 'WARPS': Param(default=1, choices=(1, 2, 4))}},
    presets={{'decode-{0}-wide': {{'BV': 4}}}},
    runs_on={1},
)
"""


@pytest.fixture
def roots(tmp_path):
    root = tmp_path / "kernels"
    for name, runs_on in (("mine", ("cpu", "cuda")), ("gpu", ("cuda",))):
        write_kernel(root / "decode" / name, DECLARATION.format(name, runs_on))
    (root / "decode" / "op.py").write_text(OP.read_text())
    return [root]


@pytest.fixture
def catalog(roots):
    return load_catalog(roots)


def settings(**more):
    return choose_sweep_settings(
        "cuda", **{"budget": "60s", "samples": 100, "seed": None, "margin": 0.005, "step_limit_s": 30.0, **more}
    )


def ask(catalog, kernels=("decode-mine",), params=("BV",), chosen=None, **more):
    given = {"axes": "", "settings": chosen or settings(), "gpu": None, "label": "sweep", **more}
    return make_sweep_request(catalog, "decode", kernels, params, **given)


def labels(request):
    return [variant.label for variant in request.variants]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("2m", 120), ("1m30s", 90), ("1m30", 90), ("0.5m", 30), ("7.5s", 7.5), (" 90s ", 90)],
)
def test_a_duration_is_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "0", "0s", "0m0s", "-1", "-1s", "x", "s", "m", "1h", "1d", "30s1m", "1m30x", "1e3", "inf", "nan"),
        *("1,5s", "90 s"),
        pytest.param("9" * 400, id="for ever"),
    ],
)
def test_a_duration_that_is_none_is_answered_with_examples(text):
    with pytest.raises(UsageError, match="--budget") as caught:
        parse_duration(text)
    assert "1m30s" in caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_request_is_the_grid_at_every_workload_and_the_kernel_as_it_is_for_a_baseline(catalog):
    request = ask(catalog, params=["WARPS", "BV=8"], axes="B=1,8")
    assert labels(request) == [f"decode-mine:BV=8:WARPS={warps}" for warps in (1, 2, 4)]
    assert request.workloads == (decode_at(B=1), decode_at(B=8))
    assert request.swept == {"decode-mine": ("BV", "WARPS")}
    assert (request.baseline, request.label) == ("decode-mine", "sweep")
    assert request.command


def test_a_kernel_that_cannot_run_here_is_no_baseline(catalog):
    assert ask(catalog, ["decode-gpu"]).baseline == ""
    request = ask(
        catalog, ["decode-gpu"], gpu=SimpleNamespace(slug="h200", arch="sm_90"), chosen=settings(budget="600s")
    )
    assert request.baseline == "decode-gpu"


def test_several_kernels_have_grids_of_their_own(catalog):
    request = ask(catalog, [], ["BV"])
    assert set(request.swept) == {"decode-mine", "decode-gpu"}
    assert len(request.variants) == 4


def test_points_that_two_presets_lead_to_are_measured_once(catalog):
    """Else they would race themselves, and tie."""
    request = ask(catalog, ["decode-mine", "decode-mine-wide"], ["BV"])
    assert labels(request) == ["decode-mine:BV=4", "decode-mine:BV=8"]
    assert len(ask(catalog, ["decode-mine*"], ["WARPS"]).variants) == 6


def test_a_budget_that_no_kernel_could_keep_is_refused(catalog):
    gpu = SimpleNamespace(slug="h200", arch="sm_90")
    with pytest.raises(UsageError, match="is too small") as caught:
        ask(catalog, axes="B=1,8,64", gpu=gpu, chosen=settings(budget="5s"))
    assert "fewer points or workloads" in caught.value.hint


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture(autouse=True)
def _no_locks(monkeypatch):
    """A folder is held for as long as a process lives, and here one process stands in for several."""
    monkeypatch.setattr("gdnbench.store.files._hold", lambda _path: None)


def test_a_stopped_sweep_goes_on_without_a_point_that_the_check_now_refuses(
    catalog, results, monkeypatch, command_line
):
    first = begin_session(catalog, make_plan(catalog, ask(catalog), None), results, ignore)
    assert {case.role for case in first.cases} == {Role.KERNEL, Role.BASELINE, Role.CONTROL}
    assert read_info(first.folder.path).swept == {"decode-mine": ["BV"]}
    ids = {case.label: case.id for case in first.cases}
    with Journal(first.folder.path) as journal:
        for number in (0, 1, 2):
            for label, case_id in ids.items():
                journal.append(encode(Sampled(number, case_id, (2.0 if "BV=4" in label else 4.0,))))

    def work(session, _record):
        session.checked.update({case_id: Examined(case_id, Status.OK) for case_id in ids.values()})
        wrong = ids["decode-mine:BV=4"]
        session.checked[wrong] = Examined(wrong, Status.WRONG_NUMBERS, "output within 1 ulp")
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "alone_on", lambda *_: nullcontext())
    monkeypatch.setattr(run_module.Session, "_work", work)
    again = resume_session(catalog, results, first.info.run_id, ignore)
    assert again.collected.complete_rounds(ids.values()) == {1, 2}
    finished = again.run()
    found = read_sweep(finished.path)
    assert [point.label for point in found.points] == ["decode-mine:BV=8"]
    assert found.plateaus[0].simplest == "decode-mine:BV=8"
    rows = {row.case.label: row for row in finished.analysis.measurements}
    assert rows["decode-mine:BV=4"].status is Status.WRONG_NUMBERS
    assert rows["decode-mine:BV=8"].timing.rounds == 2

    monkeypatch.setattr("gdnbench.catalog.catalog.load_catalog", lambda **_: catalog)
    asked = ("sweep", "decode-mine", "-p", "BV", "--gpu", "cpu", "--out", results)
    assert command_line(*asked)[0] == ExitCode.INTERRUPTED
    code, out, _ = command_line("run", "--resume", first.info.run_id, "--out", results)
    assert code == ExitCode.INTERRUPTED
    assert "2 points: decode-mine BV=4,8  \n(partial)" in out


@pytest.fixture
def with_floor(roots):
    text = DECLARATION.format("floor", ("cuda",)).replace("presets={'decode-floor-wide': {'BV': 4}}", "floor='copy'")
    write_kernel(roots[0] / "decode" / "floor", text)
    return load_catalog(roots)


def test_a_floor_is_swept_from_the_question_to_the_answer(with_floor):
    """Floors were left out of the race once: they had no time, and the sweep no points."""
    gpu = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0))
    request = ask(with_floor, ["decode-floor"], ["WARPS"], axes="B=1,8", gpu=gpu)
    assert request.baseline == ""
    plan = make_plan(with_floor, request, gpu)
    assert {case.role for case in plan.cases} == {Role.FLOOR}
    times = {case: 4.0 * case.workload.B * (1 + 0.05 * (case.variant.params["WARPS"] != 2)) for case in plan.cases}
    simulated = SimulatedGpu(times, swept=request.swept)
    collected, _ = simulated.run(simulated.race())
    found = conclude(with_floor, plan.cases, request.swept, collected, request.settings)
    assert [(each.workload.B, each.best) for each in found.plateaus] == [
        (1, "decode-floor:WARPS=2"),
        (8, "decode-floor:WARPS=2"),
    ]
    assert len(found.points) == len(plan.cases) == 6
    assert found.one_for_all[0].label == "decode-floor:WARPS=2"
