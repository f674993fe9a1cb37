"""The whole command: a healthy H200, a machine without a GPU, and what the two print."""

import sys

import pytest
import typer
from fake_nvml import H200, FakeNvml
from typer.testing import CliRunner

from gdnbench.doctor import checks as checks_module
from gdnbench.doctor.checks import Level, run_checks
from gdnbench.doctor.loading import LoadResult, TorchGpu
from gdnbench.verbs.doctor import doctor

ON_H200 = {
    "libcuda": LoadResult(),
    "torch": LoadResult(version="2.13.0", cuda="13.0", gpus=(TorchGpu("NVIDIA H200", H200["UUID"], 62914560),)),
    "triton": LoadResult(version="3.7.1"),
    "nvrtc": LoadResult(),
    "nvbench": LoadResult(),
}
NO_DRIVER = LoadResult("OSError: libcuda.so.1: cannot open shared object file")
ON_CPU = ON_H200 | {"libcuda": NO_DRIVER, "torch": LoadResult(version="2.13.0+cpu"), "nvbench": NO_DRIVER}
NO_TORCH = ON_CPU | {"torch": LoadResult("ModuleNotFoundError: No module named 'torch'")}
SECOND = H200 | {"UUID": "GPU-8ffb9999-0000-0000-0000-000000000000"}


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def set_up(*devices, loaded):
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*devices, driver=bool(devices)))
        monkeypatch.setattr(checks_module, "load_libraries", lambda gpu: loaded)

    return set_up


def run(*arguments, columns=80):
    app = typer.Typer()
    app.command()(doctor)
    return CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"}).invoke(app, arguments)


def by_name(checks):
    return {check.name: check for check in checks}


def test_auto_looks_at_every_gpu_and_a_named_one_alone(machine, tmp_path):
    machine(H200, SECOND, loaded=ON_H200)
    assert {"GPU 0", "GPU 1"} <= set(by_name(run_checks(tmp_path)))
    alone = by_name(run_checks(tmp_path, "1"))
    assert "GPU 1" in alone
    assert "GPU 0" not in alone


def test_a_second_gpu_in_trouble_stops_nothing(machine, tmp_path):
    machine(H200, SECOND | {"ComputeMode": 2}, loaded=ON_H200)
    assert by_name(run_checks(tmp_path))["GPU 1"].level is Level.FAIL
    assert run("--out", str(tmp_path)).exit_code == 0
    assert run("--out", str(tmp_path), "--gpu", "1").exit_code == 5


def test_no_gpu_still_measures_on_the_cpu(machine, tmp_path):
    machine(loaded=ON_CPU)
    result = run("--out", str(tmp_path))
    assert result.exit_code == 0
    assert "next: gdnbench run --kernel all" in result.stdout
    assert by_name(run_checks(tmp_path))["GPU"].level is Level.WARN


def test_gpu_cpu_looks_at_no_gpu(machine, tmp_path):
    machine(H200, loaded=ON_H200)
    checks = by_name(run_checks(tmp_path, "cpu"))
    assert checks["GPU"].level is Level.OK
    assert "GPU 0" not in checks


def test_a_hidden_gpu(machine, tmp_path, monkeypatch):
    machine(H200, loaded=ON_CPU)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES" in by_name(run_checks(tmp_path))["GPU"].finding


def test_no_torch_exits_5(machine, tmp_path):
    machine(loaded=NO_TORCH)
    result = run("--out", str(tmp_path))
    assert result.exit_code == 5
    assert "pip install torch" in result.stdout
