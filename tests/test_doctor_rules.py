"""Each rule against recorded facts, healthy and not."""

from pathlib import Path

import pytest

from gdnbench.doctor import checks, software
from gdnbench.doctor.checks import check_absence, check_driver, check_gpu
from gdnbench.doctor.loading import LoadResult, TorchGpu
from gdnbench.doctor.software import Level, check_python, check_torch
from gdnbench.machine.provenance import GpuProcess, GpuState
from gdnbench.model.gpu import Gpu

H200 = Gpu(0, "NVIDIA H200", "GPU-8ffb366f", (9, 0), 132, 0, 150754820096)
HEALTHY = {
    "sm_mhz": 1980,
    "sm_max_mhz": 1980,
    "memory_mhz": 3201,
    "memory_max_mhz": 3201,
    "temperature_c": 34,
    "power_w": 75.2,
    "power_limit_w": 700.0,
    "ecc": True,
    "throttle_reasons": (),
    "processes": (),
    "driver_version": "580.159.04",
    "cuda_driver_version": "13.0",
    "mig": False,
    "persistence": True,
    "compute_mode": "default",
}
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


def test_a_gpu_of_which_nothing_is_known():
    checks = check_gpu(Gpu(3, "NVIDIA X", "GPU-0", (9, 0)), GpuState(), 0, is_chosen=True)
    assert [check.level for check in checks] == [Level.OK] * 4
    assert [check.finding for check in checks] == ["NVIDIA X (sm_90)"] + ["the driver does not say"] * 3


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


def test_79_degrees_is_cool_enough():
    assert gpu_checks(temperature_c=79)["heat"].level is Level.OK


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_prohibited_gpu_stops_only_who_chose_it(is_chosen):
    check = gpu_checks(compute_mode="prohibited", is_chosen=is_chosen)["model"]
    assert check.level is Level.FAIL
    assert check.is_fatal is is_chosen


@pytest.mark.parametrize(
    ("supported", "nvrtc", "level"),
    [("13.0", "13.0.88", "ok"), ("13.0", "13.2.1", "ok"), ("13.0", None, "ok"), ("12.8", "13.0.88", "fail")],
)
def test_driver(supported, nvrtc, level):
    check = check_driver(GpuState(driver_version="570.1", cuda_driver_version=supported), nvrtc)
    assert check.level == level
    assert check.is_fatal == (level == "fail")


def test_an_old_driver_is_told_which_to_install():
    assert "580" in check_driver(GpuState(cuda_driver_version="12.8"), "13.0.88").remedy


def test_a_silent_driver():
    assert check_driver(GpuState(), "13.0").level is Level.WARN


def test_no_gpu_says_what_works():
    check = check_absence([], [])
    assert check.level is Level.WARN
    assert "gdnbench run" in check.finding


def test_a_hidden_gpu_is_named():
    assert "CUDA_VISIBLE_DEVICES hides what there is (0: NVIDIA H200)" in check_absence([H200], []).finding


def test_a_container_without_nvml():
    assert "NVIDIA_DRIVER_CAPABILITIES" in check_absence([], TORCH.gpus).remedy


@pytest.mark.parametrize(
    ("torch", "gpu", "driver_cuda", "words"),
    [
        (LoadResult("ModuleNotFoundError: No module named 'torch'"), None, None, "not installed"),
        (LoadResult("ImportError: libtorch.so"), None, None, "does not load: ImportError: libtorch.so"),
        (LoadResult("it did not load in 120 s"), H200, "13.0", "120 s"),
        (LoadResult(version="2.13.0+cpu", gpu_problem="AssertionError"), H200, "13.0", "built for the CPU"),
        (LoadResult(version="2.13.0", cuda="13.0", gpu_problem="x"), H200, "12.8", "goes up to CUDA 12.8"),
        (LoadResult(version="2.13.0", cuda="13.0", gpu_problem="no kernel image"), H200, "13.0", "no kernel image"),
    ],
)
def test_without_torch_nothing_can_be_measured(torch, gpu, driver_cuda, words):
    check = check_torch(torch, gpu, driver_cuda)
    assert check.is_fatal
    assert words in check.finding
    assert check.remedy


def test_a_healthy_torch():
    assert "computes on the NVIDIA H200" in check_torch(TORCH, H200, "13.0").finding
    assert check_torch(CPU_TORCH, None, None).finding == "2.13.0+cpu, built for the CPU"
    assert check_torch(TORCH, None, None).level is Level.OK


def test_nvbench_without_a_driver_is_told_truly():
    check = software.check_nvbench(MISLEADING, NO_LIBCUDA, "0.3.0", None)
    assert check.level is Level.OK
    assert "libcuda.so.1" in check.finding
    assert "CUDA version" not in check.finding


def test_nvbench_beside_a_gpu():
    assert software.check_nvbench(LoadResult(), LoadResult(), "0.3.0", H200).level is Level.OK
    container = software.check_nvbench(MISLEADING, NO_LIBCUDA, "0.3.0", H200)
    assert container.is_fatal
    assert "NVIDIA_DRIVER_CAPABILITIES" in container.remedy
    broken = software.check_nvbench(
        LoadResult("ImportError: … Original error: libnvbench.so: no"), LoadResult(), "0.3.0", H200
    )
    assert broken.is_fatal
    assert broken.finding == "0.3.0, does not load: libnvbench.so: no"


@pytest.mark.parametrize(("gpu", "level"), [(H200, "fail"), (None, "warn")])
def test_nvbench_not_installed(gpu, level):
    assert software.check_nvbench(MISLEADING, NO_LIBCUDA, None, gpu).level == level


def test_optional_libraries_only_warn():
    broken = LoadResult("ImportError: x")
    assert software.check_triton(broken).level is Level.WARN
    assert software.check_triton(LoadResult("ModuleNotFoundError: x")).remedy == "pip install triton"
    assert software.check_nvrtc(broken, "1.2", "13.0.88").level is Level.WARN
    assert software.check_nvrtc(broken, "1.2", None).remedy == "pip install nvidia-cuda-nvrtc"
    assert software.check_nvrtc(broken, None, None).remedy == "pip install cuda-core nvidia-cuda-nvrtc"
    assert software.check_nvrtc(LoadResult(), "1.2", "13.0.88").level is Level.OK
    assert software.check_fla(None).remedy == "pip install 'gdnbench[fla]'"
    assert software.check_fla("0.6.0").level is Level.OK


@pytest.mark.parametrize(
    ("c", "cpp", "headers", "has_gpu", "words"),
    [
        ("/usr/bin/gcc", "/usr/bin/g++", True, True, "gcc, g++ and Python.h"),
        (None, "g++", False, False, "g++"),
        (None, "g++", True, True, "no C compiler"),
        ("gcc", "g++", False, True, "no Python.h"),
        ("gcc", None, True, False, "no C++ compiler"),
    ],
)
def test_compilers(c, cpp, headers, has_gpu, words):
    check = software.check_compilers(c, cpp, headers, has_gpu)
    assert words in check.finding
    assert check.level == ("warn" if words.startswith("no ") else "ok")


def test_nvcc_is_never_needed():
    assert software.check_nvcc(None, "").level is Level.OK
    assert software.check_nvcc("/bin/nvcc", "Cuda compilation tools, release 13.0, V13.0.88").finding.startswith(
        "13.0,"
    )
    assert software.check_nvcc("/bin/nvcc", "").level is Level.OK


def test_finds_the_newest_ncu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert software.find_ncu(tmp_path) is None
    for place in ("usr/local/cuda-12.9/bin", "usr/local/cuda-13.0/bin", "usr/local/cuda/bin"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "ncu").touch()
    assert software.find_ncu(tmp_path) == tmp_path / "usr/local/cuda-13.0/bin/ncu"


def test_the_path_comes_first(tmp_path, monkeypatch):
    ncu = tmp_path / "ncu"
    ncu.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert software.find_ncu() == ncu


def test_ncu(tmp_path):
    assert software.check_ncu(None, "").level is Level.WARN
    assert software.check_ncu(tmp_path, "").level is Level.WARN
    assert software.check_ncu(tmp_path, "Version 2025.3.1.0 (build 36398880)").finding.startswith("2025.3.1.0 ")


SYS_ADMIN, PERFMON, NEITHER = f"{1 << 21:016x}", f"{1 << 38:016x}", f"{(1 << 20) | (1 << 39):016x}"


@pytest.mark.parametrize(
    ("params", "capabilities", "driver", "level"),
    [
        ("RmProfilingAdminOnly: 0\n", NEITHER, "580.1", "ok"),
        ("RmProfilingAdminOnly: 1\n", SYS_ADMIN, "535.1", "ok"),
        ("RmProfilingAdminOnly: 1\n", PERFMON, "580.1", "ok"),
        ("RmProfilingAdminOnly: 1\n", PERFMON, "550.1", "warn"),
        ("RmProfilingAdminOnly: 1\n", NEITHER, "580.1", "warn"),
        ("RmProfilingAdminOnly: 1\n", NEITHER, None, "warn"),
        ("", SYS_ADMIN, "580.1", "warn"),
    ],
)
def test_permission_to_read_counters(params, capabilities, driver, level):
    check = software.check_counters(f"Other: 1\n{params}", f"Name:\tx\nCapEff:\t{capabilities}\n", driver)
    assert check.level == level
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.remedy) == (level == "warn")


@pytest.mark.parametrize(
    ("version", "torch_cuda", "driver_cuda", "level"),
    [
        ("13.0.85", "13.0", "13.0", "ok"),
        ("13.0.85", "13.0", "13.2", "ok"),
        ("13.4.0", "13.0", "13.0", "warn"),
        ("13.0.85", "13.0", "12.8", "warn"),
        (None, "13.0", "13.0", "ok"),
        ("13.0.85", None, None, "ok"),
    ],
)
def test_cupti(version, torch_cuda, driver_cuda, level):
    assert software.check_cupti(version, torch_cuda, driver_cuda).level == level


def test_python():
    assert check_python().level is Level.OK
    assert check_python((3, 10), "3.10.1").is_fatal


def test_results(tmp_path):
    assert checks.check_results(tmp_path).finding == f"{tmp_path} can be written to"
    deep = tmp_path / "a" / "b"
    assert checks.check_results(deep).finding == f"{deep} can be made"
    assert not any(tmp_path.iterdir())
    file = tmp_path / "file"
    file.touch()
    assert checks.check_results(file / "x").is_fatal
    assert checks.check_results(Path("/proc/none")).is_fatal
    assert checks.free_bytes(deep) > 0


@pytest.mark.parametrize(("left", "level"), [(10**12, "ok"), (2 * 10**9, "ok"), (19 * 10**8, "warn"), (10**8, "fail")])
def test_disk(left, level):
    check = checks.check_disk(left)
    assert check.level == level
    assert check.is_fatal == (level == "fail")
