"""Each rule against recorded facts, healthy and not."""

from pathlib import Path

import pytest
from fake_nvml import HEALTHY

from gdnbench.doctor import checks
from gdnbench.doctor.checks import Level, check_absence, check_driver, check_gpu, check_python, check_torch
from gdnbench.doctor.loading import LoadResult, TorchGpu
from gdnbench.machine.provenance import GpuProcess, GpuState
from gdnbench.model.gpu import Gpu

H200 = Gpu(0, "NVIDIA H200", "GPU-8ffb366f", (9, 0), 132, 0, 150754820096)
TORCH = LoadResult(version="2.13.0+cu130", cuda="13.0", gpus=(TorchGpu("NVIDIA H200", "GPU-8ffb366f", 62914560),))
CPU_TORCH = LoadResult(version="2.13.0+cpu")
NO_LIBCUDA = LoadResult("OSError: libcuda.so.1: cannot open shared object file")
MISLEADING = LoadResult(
    "ImportError: No cuda-bench extension found for CUDA 13.x. This wheel may not include support for your CUDA "
    "version. Supported CUDA versions: 12, 13. Original error: libcuda.so.1: cannot open shared object file"
)


def gpu_checks(is_chosen=True, l2_bytes=62914560, **changes):
    checks = check_gpu(H200, GpuState(**HEALTHY | changes), l2_bytes, is_chosen=is_chosen)
    return {check.name.removeprefix("GPU 0").strip() or "model": check for check in checks}


def test_a_healthy_gpu():
    checks = gpu_checks()
    assert {check.level for check in checks.values()} == {Level.OK}
    assert checks["model"].finding == "NVIDIA H200 (sm_90), 132 SMs, 60 MiB L2, 140 GiB, ECC on"
    assert checks["clocks"].finding == "SM 1980 of 1980 MHz, memory 3201 of 3201 MHz"
    assert checks["heat"].finding == "34 °C, 75 W drawn, limit 700 W"


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"mig": True}, "model", "MIG is on"),
        ({"throttle_reasons": ("power cap", "board limit")}, "clocks", "held down by: power cap, board limit"),
        ({"temperature_c": 80}, "heat", "80 °C"),
        ({"processes": (GpuProcess(7, "/bin/x", 2**30), GpuProcess(9, "", None))}, "users", "pid 7 (x 1.0 GiB), pid 9"),
    ],
)
def test_what_lessens_trust_is_a_warning(changes, name, words):
    checks = gpu_checks(**changes)
    unwell = [key for key, check in checks.items() if check.level is Level.WARN]
    assert unwell == [name]
    assert words in checks[name].finding
    assert checks[name].remedy


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_prohibited_gpu_stops_only_who_chose_it(is_chosen):
    check = gpu_checks(compute_mode="prohibited", is_chosen=is_chosen)["model"]
    assert check.level is Level.FAIL
    assert check.is_fatal is is_chosen


def driver(cuda, nvrtc="13.0.88"):
    return check_driver(GpuState(driver_version="570.1", cuda_driver_version=cuda), nvrtc)


def without_torch(problem):
    return check_torch(LoadResult(problem), None, None)


def broken_torch(driver_cuda, **told):
    return check_torch(LoadResult(**{"version": "2.13.0", "cuda": "13.0", **told}), H200, driver_cuda)


BROKEN, MISSING = LoadResult("ImportError: x"), LoadResult("ModuleNotFoundError: x")
NO_NVBENCH = LoadResult("ImportError: … Original error: libnvbench.so: no")
CONTAINER = "NVIDIA_DRIVER_CAPABILITIES"


@pytest.mark.parametrize(
    ("check", "level", "said"),
    [
        (driver("13.0"), "ok", "for CUDA up to 13.0"),
        (driver("13.0", "13.2.1"), "ok", ""),
        (driver("13.0", None), "ok", ""),
        (driver("12.8"), "fatal", "580"),
        (check_driver(GpuState(), "13.0"), "warn", "does not say its CUDA"),
        (check_absence([], []), "warn", "gdnbench run"),
        (check_absence([H200], []), "warn", "CUDA_VISIBLE_DEVICES hides what there is (0: NVIDIA H200)"),
        (check_absence([], TORCH.gpus), "warn", CONTAINER),
        (without_torch("ModuleNotFoundError: No module named 'torch'"), "fatal", "not installed"),
        (without_torch("ImportError: libtorch.so"), "fatal", "does not load: ImportError: libtorch.so"),
        (check_torch(LoadResult("it did not load in 120 s"), H200, "13.0"), "fatal", "120 s"),
        (broken_torch("13.0", cuda=None, gpu_problem="AssertionError"), "fatal", "built for the CPU"),
        (broken_torch("12.8", gpu_problem="x"), "fatal", "goes up to CUDA 12.8"),
        (broken_torch("13.0", gpu_problem="no kernel image"), "fatal", "no kernel image"),
        (check_torch(TORCH, H200, "13.0"), "ok", "computes on the NVIDIA H200"),
        (check_torch(CPU_TORCH, None, None), "ok", "2.13.0+cpu, built for the CPU"),
        (check_torch(TORCH, None, None), "ok", ""),
        (checks.check_nvbench(MISLEADING, NO_LIBCUDA, "0.3.0", None), "ok", "libcuda.so.1"),
        (checks.check_nvbench(MISLEADING, NO_LIBCUDA, "0.3.0", H200), "fatal", CONTAINER),
        (checks.check_nvbench(LoadResult(), LoadResult(), "0.3.0", H200), "ok", ""),
        (checks.check_nvbench(NO_NVBENCH, LoadResult(), "0.3.0", H200), "fatal", "load: libnvbench.so: no"),
        (checks.check_nvbench(MISLEADING, NO_LIBCUDA, None, H200), "fatal", "not installed"),
        (checks.check_nvbench(MISLEADING, NO_LIBCUDA, None, None), "warn", "not installed"),
        (checks.check_triton(BROKEN), "warn", ""),
        (checks.check_triton(MISSING), "warn", "pip install triton"),
        (checks.check_nvrtc(BROKEN, "1.2", "13.0.88"), "warn", ""),
        (checks.check_nvrtc(BROKEN, "1.2", None), "warn", "pip install nvidia-cuda-nvrtc"),
        (checks.check_nvrtc(BROKEN, None, None), "warn", "pip install cuda-core nvidia-cuda-nvrtc"),
        (checks.check_nvrtc(LoadResult(), "1.2", "13.0.88"), "ok", ""),
        (checks.check_compilers("/usr/bin/gcc", "/usr/bin/g++", True, True), "ok", "gcc, g++ and Python.h"),
        (checks.check_compilers(None, "g++", False, False), "ok", "g++"),
        (checks.check_compilers(None, "g++", True, True), "warn", "no C compiler"),
        (checks.check_compilers("gcc", "g++", False, True), "warn", "no Python.h"),
        (checks.check_compilers("gcc", None, True, False), "warn", "no C++ compiler"),
        (check_python(), "ok", ""),
    ],
)
def test_each_fact_has_its_level_and_what_to_do(check, level, said):
    assert (check.level, check.is_fatal) == ("fail" if level == "fatal" else level, level == "fatal")
    assert said in f"{check.finding} {check.remedy}"
    assert check.level is not Level.FAIL or check.remedy


def test_without_a_driver_nvbench_does_not_blame_the_cuda_version():
    assert "CUDA version" not in checks.check_nvbench(MISLEADING, NO_LIBCUDA, "0.3.0", None).finding


def test_results(tmp_path):
    assert checks.check_results(tmp_path).finding == f"{tmp_path} can be written to"
    deep = tmp_path / "a" / "b"
    assert checks.check_results(deep).finding == f"{deep} can be made"
    assert not any(tmp_path.iterdir())
    file = tmp_path / "file"
    file.touch()
    assert checks.check_results(file / "x").is_fatal
    assert checks.check_results(Path("/proc/none")).is_fatal
