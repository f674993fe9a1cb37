"""What `--dry-run` says is what a run then does; thousands of builds are not begun without a question."""

import pytest
from bundled import CATALOG

from gdnbench.catalog.request import make_request
from gdnbench.errors import ExitCode
from gdnbench.measure.plan import MOST_BUILDS, choose_sweep_settings, foresee, make_plan, make_sweep_request
from gdnbench.measure.schedule import LONGEST_CALL_US, longest_round_s, round_cost_s, sample_count
from gdnbench.model.gpu import Gpu
from gdnbench.store.settings import Settings

H200 = Gpu(index=0, name="NVIDIA H200", uuid="GPU-1", capability=(9, 0))
B200 = Gpu(index=0, name="NVIDIA B200", uuid="GPU-2", capability=(10, 0))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Apart from `tmp_path`, in which nothing may be left behind: that a declaration was tried is written down here."""
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


def outlook_of(kernels, gpu=None, axes="", op="decode", **settings):
    request = make_request(CATALOG, op, kernels, axes=axes, settings=Settings(**settings))
    return foresee(CATALOG, make_plan(CATALOG, request, gpu))


def test_without_a_gpu_it_tells_what_is_compiled_and_what_is_timed():
    outlook = outlook_of("decode-compiled,decode-v4", axes="B=1,8", rounds=7)
    assert outlook.device == "cpu"
    assert outlook.kernels == ("decode-reference", "decode-compiled")
    assert outlook.left_out == {"decode-v4": "it needs a GPU"}
    assert outlook.cases == 2 * 3  # both, and the baseline once more, at two batch sizes
    assert (outlook.builds, outlook.cached) == (2, 0)  # one kernel for two architectures; batch sizes share a build
    assert outlook.rounds == 7
    assert 0 < outlook.building_s < 10


def test_a_kernel_with_the_instructions_of_another_gpu_is_left_out():
    assert "prefill-v3" not in outlook_of("prefill-v1,prefill-v3", H200, op="prefill").left_out
    left_out = outlook_of("prefill-v1,prefill-v3,prefill-v2", B200, op="prefill").left_out
    assert left_out["prefill-v3"] == left_out["prefill-v2"] == "its instructions are not those of sm_100"
    assert "prefill-v1" not in left_out


def test_on_a_gpu_the_floor_and_the_control_are_counted():
    outlook = outlook_of("decode-v4,decode-v9", H200, axes="B=1,8,64", rounds=41)
    beside = 3 if "decode-fla" in outlook.kernels else 2
    assert set(outlook.kernels) >= {"decode-v4", "decode-v9", "decode-floor-copy"}
    assert outlook.cases >= 3 * (2 + beside)
    rounds = 42 + 2 * 9  # and nine at either extreme of the inputs, of half as many samples
    assert 0.1 < outlook.measuring_s / (rounds * outlook.cases * 0.029) <= 1.0


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_what_is_foreseen_holds_for_calls_up_to_the_one_that_is_told(device):
    told_us, samples = LONGEST_CALL_US[device], Settings().samples
    rounds_s = [
        round_cost_s(sample_count(samples, call_us, device), call_us, device)
        for call_us in (0.01 * told_us, 0.3 * told_us, told_us, 2 * told_us)
    ]
    assert max(rounds_s[:3]) <= longest_round_s(samples, device) < rounds_s[3]


def test_a_sweep_counts_its_points_and_takes_its_budget():
    settings = choose_sweep_settings("cuda", budget="90s", samples=100, seed=1, margin=0.005, step_limit_s=30.0)
    request = make_sweep_request(
        CATALOG, "decode", ["decode-v4"], ["WARPS=1,2,4"], axes="", settings=settings, gpu=None
    )
    outlook = foresee(CATALOG, make_plan(CATALOG, request, None))
    assert (outlook.points, outlook.builds, outlook.rounds, outlook.measuring_s) == (3, 6, 0, 90.0)


def test_workloads_that_a_kernel_cannot_do_are_not_counted():
    outlook = outlook_of("verify-v2,verify-v3", H200, axes="B=1 keep=last state=bf16,fp32", op="verify")
    assert [(label, why) for label, why in outlook.left_out.items() if label.startswith("verify-v3")] == [
        ("verify-v3 at B=1 T=4 last qk4_v8 fp32", "tensor cores multiply bf16, and states have 32 bits")
    ]
    assert outlook.cases == outlook_of("verify-v2", H200, axes="B=1 keep=last state=bf16,fp32", op="verify").cases + 1


def test_a_run_of_a_kernel_that_can_do_none_of_the_workloads_is_refused_with_one_that_it_can(
    command_line, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda: [H200])
    code, out, err = command_line("run", "verify-v3", "--shape", "state=fp32", columns="200")
    assert (code, out) == (ExitCode.ENVIRONMENT, "")
    assert "verify-v3: tensor cores multiply bf16, and states have 32 bits" in err
    assert "verify-v3 can do --shape" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_a_dry_run_does_nothing_and_says_how_to_go_on(command_line, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda: [H200])
    monkeypatch.setattr("sys.argv", ["gdnbench", verb, "decode-v4", "--dry-run"])
    code, out, err = command_line(verb, "decode-v4", "--dry-run")
    assert (code, err) == (ExitCode.OK, "")
    assert out.splitlines()[-1] == f"next: gdnbench {verb} decode-v4"
    assert not list(tmp_path.glob("results/*"))


def test_a_sweep_of_everything_is_not_begun_by_mistake(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", (tmp_path / "nobody").open("w+"))
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda: [H200])
    code, out, err = command_line("sweep", "--budget", "10m")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "kernels are to be compiled" in err
    assert "--yes" in err
    assert not list(tmp_path.glob("results/*"))


def test_the_question_is_asked_of_thousands_only():
    everything = make_sweep_request(
        CATALOG, "decode", [], [], axes="", gpu=None,
        settings=choose_sweep_settings("cuda", budget="90s", samples=1, seed=1, margin=0.005, step_limit_s=30.0),
    )  # fmt: skip
    assert foresee(CATALOG, make_plan(CATALOG, everything, None)).missing > MOST_BUILDS
    assert outlook_of("all").missing < MOST_BUILDS
