"""What a user asks a sweep for, and which stopped sweep it goes on with."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from decode_workloads import decode_at
from simulated_gpu import SimulatedGpu

from gdnbench.analyse.conclude import conclude
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.errors import ExitCode, UsageError
from gdnbench.measure import run as run_module
from gdnbench.measure.plan import choose_sweep_settings, make_plan, make_sweep_request, parse_duration
from gdnbench.measure.start import open_sweep
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Role, Status
from gdnbench.process.events import NoteMade, ignore
from gdnbench.store.files import Journal
from gdnbench.store.info import read_info, write_info
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
        folder = root / "decode" / name
        folder.mkdir(parents=True)
        (folder / "kernel.py").write_text("")
        (folder / "variant.py").write_text(DECLARATION.format(name, runs_on))
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


def test_settings_are_those_of_a_race():
    chosen = settings(budget="2m", samples=50, seed=3, margin=0.01, step_limit_s=9.0)
    assert (chosen.budget_s, chosen.samples, chosen.seed, chosen.margin, chosen.step_limit_s) == (120, 50, 3, 0.01, 9.0)
    assert len({settings().seed for _ in range(20)}) > 15


@pytest.mark.parametrize("bad", [{"budget": "0"}, {"samples": 0}, {"margin": 1.0}, {"step_limit_s": 0.0}])
def test_settings_that_cannot_be_raced_with_are_usage_errors(bad):
    with pytest.raises(UsageError, match="--"):
        settings(**bad)


def test_a_request_is_the_grid_at_every_workload_and_the_kernel_as_it_is_for_a_baseline(catalog):
    request = ask(catalog, params=["WARPS", "BV=8"], axes="B=1,8")
    assert labels(request) == [f"decode-mine:BV=8:WARPS={warps}" for warps in (1, 2, 4)]
    assert request.workloads == (decode_at(B=1), decode_at(B=8))
    assert request.swept == {"decode-mine": ("BV", "WARPS")}
    assert (request.baseline, request.label) == ("decode-mine", "sweep")
    assert request.command


def test_a_preset_is_its_own_baseline(catalog):
    assert ask(catalog, ["decode-mine-wide"], ["WARPS"]).baseline == "decode-mine-wide"


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


@pytest.fixture
def begin(catalog, results):
    """Opens the sweep that a request asks for; what is open elsewhere is let go, as if its process had ended."""

    def open_it(request=None, of=catalog):
        events = []
        session = open_sweep(of, make_plan(of, request or ask(of), None), results, events.append)
        return session, [each.text for each in events if isinstance(each, NoteMade)]

    return open_it


@pytest.fixture(autouse=True)
def _no_locks(monkeypatch):
    """A folder is held for as long as a process lives, and here one process stands in for several."""
    monkeypatch.setattr("gdnbench.store.files._hold", lambda _path: None)


def test_a_first_sweep_begins_anew(begin):
    session, notes = begin()
    assert notes == []
    assert {case.role for case in session.cases} == {Role.KERNEL, Role.BASELINE, Role.CONTROL}
    assert read_info(session.folder.path).swept == {"decode-mine": ["BV"]}


def test_the_same_sweep_goes_on_with_what_was_measured(begin):
    first, _ = begin()
    ids = [case.id for case in first.cases]
    with Journal(first.folder.path) as journal:
        for number in (0, 1, 2):
            for case_id in ids:
                journal.append(encode(Sampled(number, case_id, (4.0,))))
    again, notes = begin()
    assert again.folder.run_id == first.folder.run_id
    assert again.cases == first.cases
    assert again.collected.complete_rounds(ids) == {1, 2}
    assert first.folder.run_id in notes[0]


def test_more_time_or_another_seed_is_the_same_sweep_with_the_new_budget(catalog, begin):
    first, _ = begin(ask(catalog, chosen=settings(budget="60s", seed=1)))
    again, _ = begin(ask(catalog, chosen=settings(budget="5m", seed=2)))
    assert again.folder.run_id == first.folder.run_id
    assert again.settings.budget_s == 300.0


OTHERS = {
    "params": {"params": ["WARPS"]},
    "values": {"params": ["BV=4"]},
    "order of values": {"params": ["BV=8,4"]},
    "shapes": {"axes": "B=2"},
    "heads": {"axes": "heads=qk2_v4"},
    "baseline": {"baseline": "decode-mine-wide"},
    "label": {"label": "another"},
    "kernel": {"kernels": ["decode-mine-wide"], "params": ["WARPS"]},
    "samples": {"chosen": settings(samples=7)},
    "margin": {"chosen": settings(margin=0.01)},
    "step limit": {"chosen": settings(step_limit_s=5.0)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_question_is_another_sweep(catalog, begin, what):
    first, _ = begin()
    other, notes = begin(ask(catalog, **OTHERS[what]))
    assert other.folder.run_id != first.folder.run_id
    assert notes == []


def test_a_sweep_that_is_whole_is_not_taken_up(begin):
    first, _ = begin()
    write_info(first.folder.path, replace(first.info, complete=True))
    first.folder.finish()
    assert begin()[0].folder.run_id != first.folder.run_id


def test_a_kernel_that_has_changed_makes_another_sweep(roots, begin):
    first, _ = begin()
    (roots[0] / "decode" / "mine" / "kernel.py").write_text("# changed\n")
    other, notes = begin(of=load_catalog(roots))
    assert other.folder.run_id != first.folder.run_id
    assert notes == []


def test_a_sweep_of_another_gpu_is_not_taken_up(begin):
    first, _ = begin()
    write_info(first.folder.path, replace(first.info, gpu="h200"))
    assert begin()[0].folder.run_id != first.folder.run_id


def test_a_stopped_run_of_the_same_cases_is_no_sweep(begin):
    first, _ = begin()
    write_info(first.folder.path, replace(first.info, swept={}))
    assert begin()[0].folder.run_id != first.folder.run_id


def test_of_several_that_were_stopped_the_latest_goes_on(results, begin):
    first, _ = begin()
    later = first.folder.path.with_name(".20990101-000000-cpu-decode-sweep.partial")
    later.mkdir()
    write_info(later, replace(first.info, run_id="20990101-000000-cpu-decode-sweep"))
    assert begin()[0].folder.run_id == "20990101-000000-cpu-decode-sweep"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}'])
def test_a_damaged_run_beside_it_is_no_hindrance(results, begin, text):
    folder = results / "20990101-000000-cpu-decode-sweep"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(text)
    assert begin()[1] == []


def test_a_sweep_that_another_process_is_measuring_is_not_taken_up(catalog, results, monkeypatch):
    monkeypatch.undo()  # with locks
    request = ask(catalog)
    open_sweep(catalog, make_plan(catalog, request, None), results, ignore)
    with pytest.raises(UsageError, match="is being measured by another process"):
        open_sweep(catalog, make_plan(catalog, request, None), results, ignore)


def test_a_point_that_the_check_now_refuses_is_no_answer_though_it_was_measured(begin, monkeypatch):
    """Another seed makes other inputs, and a kernel that was right on the first may be wrong on them."""
    first, _ = begin()
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
    finished = begin()[0].run()
    found = read_sweep(finished.path)
    assert [point.label for point in found.points] == ["decode-mine:BV=8"]
    assert found.plateaus[0].simplest == "decode-mine:BV=8"
    rows = {row.case.label: row for row in finished.analysis.measurements}
    assert rows["decode-mine:BV=4"].status is Status.WRONG_NUMBERS
    assert rows["decode-mine:BV=8"].timing.rounds == 2


@pytest.fixture
def with_floor(roots):
    """A catalog with a floor of two params in it."""
    folder = roots[0] / "decode" / "floor"
    folder.mkdir()
    (folder / "kernel.py").write_text("")
    text = DECLARATION.format("floor", ("cuda",)).replace("presets={'decode-floor-wide': {'BV': 4}}", "floor='copy'")
    (folder / "variant.py").write_text(text)
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
