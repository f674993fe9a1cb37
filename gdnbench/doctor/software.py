"""Checks of Python, torch, the packages that build and time the kernels, the compilers, and the profilers."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gdnbench.doctor.loading import LoadResult
from gdnbench.model.gpu import Gpu
from gdnbench.process.command import run_tool


class Level(StrEnum):
    """Severity of a finding."""

    OK = "ok"  # as it should be, or not needed here
    WARN = "warn"  # something is lost: a kernel, a profiler, or trust in a number
    FAIL = "fail"  # something requested cannot work


@dataclass(frozen=True)
class MachineCheck:
    """A finding of the doctor about one thing.

    `finding` is one sentence without a full stop; `remedy` says what to do, with a command if there is one.
    `needed_to_measure` tells whether nothing can be measured while this fails.
    """

    name: str
    level: Level
    finding: str
    remedy: str = ""
    needed_to_measure: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether this prevents all measurements."""
        return self.level is Level.FAIL and self.needed_to_measure


def version_numbers(version: str) -> tuple[int, int]:
    """Returns the major and minor number: `13.0.88` gives (13, 0), a text without numbers (0, 0)."""
    found = re.match(r"(\d+)(?:\.(\d+))?", version)
    return (int(found.group(1)), int(found.group(2) or 0)) if found else (0, 0)


_OLDEST = (3, 11)
_CUDA_BUILD = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130"


def check_python(
    version: tuple[int, int] = sys.version_info[:2], full: str = platform.python_version()
) -> MachineCheck:
    """Checks whether this Python is new enough."""
    if version >= _OLDEST:
        return MachineCheck("Python", Level.OK, full, needed_to_measure=True)
    oldest = ".".join(map(str, _OLDEST))
    return MachineCheck(
        "Python", Level.FAIL, f"{full} is older than {oldest}", f"install Python {oldest} or newer", True
    )


def check_torch(torch: LoadResult, gpu: Gpu | None, driver_cuda: str | None) -> MachineCheck:
    """Checks whether torch loads and, with a GPU, computes on it.

    `gpu` is None for the CPU; `driver_cuda` is the newest CUDA that the driver supports, `13.0`, or None if unknown.
    """
    if torch.is_missing:
        return _fail("not installed", "pip install torch")
    if torch.problem:
        return _fail(f"does not load: {torch.problem}", "pip install --force-reinstall torch")
    built = f"{torch.version}, built for {f'CUDA {torch.cuda}' if torch.cuda else 'the CPU'}"
    if gpu is None:
        return MachineCheck("torch", Level.OK, built, needed_to_measure=True)
    if torch.gpu_problem:
        return _explain_gpu_problem(torch, built, gpu, driver_cuda)
    return MachineCheck("torch", Level.OK, f"{built}, computes on the {gpu.name}", needed_to_measure=True)


def _explain_gpu_problem(torch: LoadResult, built: str, gpu: Gpu, driver_cuda: str | None) -> MachineCheck:
    if torch.cuda is None:
        return _fail(f"{built}: it cannot use the {gpu.name}", _CUDA_BUILD)
    if driver_cuda and version_numbers(torch.cuda)[0] > version_numbers(driver_cuda)[0]:
        return _fail(f"{built}, but the driver goes up to CUDA {driver_cuda}", "update the NVIDIA driver")
    return _fail(f"{built}, cannot compute on the {gpu.name}: {torch.gpu_problem}", "see what nvidia-smi says")


def _fail(finding: str, remedy: str) -> MachineCheck:
    return MachineCheck("torch", Level.FAIL, finding, remedy, needed_to_measure=True)


def check_triton(triton: LoadResult) -> MachineCheck:
    """Checks whether Triton loads; only the Triton kernels need it."""
    if triton.is_missing:
        return MachineCheck("triton", Level.WARN, "not installed: no Triton kernels", "pip install triton")
    if triton.problem:
        return MachineCheck(
            "triton", Level.WARN, f"does not load: {triton.problem}", "pip install --force-reinstall triton"
        )
    return MachineCheck("triton", Level.OK, triton.version)


def check_nvrtc(nvrtc: LoadResult, core_version: str | None, nvrtc_version: str | None) -> MachineCheck:
    """Checks whether NVRTC, through cuda-core, builds a kernel; the CUDA kernels need it."""
    if core_version is None or nvrtc_version is None:
        missing = [
            package
            for package, version in (("cuda-core", core_version), ("nvidia-cuda-nvrtc", nvrtc_version))
            if version is None
        ]
        return MachineCheck("NVRTC", Level.WARN, "not installed: no CUDA kernels", f"pip install {' '.join(missing)}")
    versions = f"{nvrtc_version} with cuda-core {core_version}"
    if nvrtc.problem:
        remedy = "pip install --force-reinstall cuda-core nvidia-cuda-nvrtc"
        return MachineCheck("NVRTC", Level.WARN, f"{versions}, builds no kernel: {nvrtc.problem}", remedy)
    return MachineCheck("NVRTC", Level.OK, f"{versions}, builds for sm_90")


def check_nvbench(nvbench: LoadResult, libcuda: LoadResult, version: str | None, gpu: Gpu | None) -> MachineCheck:
    """Checks whether NVBench, which times GPU kernels, loads.

    Without a driver, cuda-bench's own message blames the CUDA version; this one names the real cause.
    """
    level = Level.FAIL if gpu else Level.WARN
    if version is None:
        remedy = "pip install 'cuda-bench[cu13]'"
        return MachineCheck(
            "cuda-bench", level, "not installed: no GPU kernel can be timed", remedy, needed_to_measure=True
        )
    if not nvbench.problem:
        return MachineCheck("cuda-bench", Level.OK, f"{version}, loads", needed_to_measure=True)
    if libcuda.problem and gpu is None:
        finding = f"{version}, not needed without a GPU (it loads only where a driver brings libcuda.so.1)"
        return MachineCheck("cuda-bench", Level.OK, finding)
    if libcuda.problem:
        remedy = "in a container, start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        return MachineCheck("cuda-bench", level, f"{version}, does not load: no libcuda.so.1 here", remedy, True)
    cause = nvbench.problem.rpartition("Original error: ")[2]
    remedy = "pip install --force-reinstall 'cuda-bench[cu13]'"
    return MachineCheck("cuda-bench", level, f"{version}, does not load: {cause}", remedy, needed_to_measure=True)


def check_fla(version: str | None) -> MachineCheck:
    """Checks whether the FLA baseline is installed."""
    if version is None:
        return MachineCheck("FLA", Level.WARN, "not installed: no FLA baseline", "pip install 'gdnbench[fla]'")
    return MachineCheck("FLA", Level.OK, f"fla-core {version}")


def find_c_compiler() -> str | None:
    """Returns the C compiler that Triton would take."""
    return os.environ.get("CC") or _first("gcc", "clang", "cc")


def find_cpp_compiler() -> str | None:
    """Returns the C++ compiler that torch.compile would take."""
    return os.environ.get("CXX") or _first("g++", "clang++", "c++")


def has_python_headers() -> bool:
    """Whether an extension module can be compiled for this Python."""
    return (Path(sysconfig.get_path("include")) / "Python.h").exists()


def check_compilers(c: str | None, cpp: str | None, has_headers: bool, has_gpu: bool) -> MachineCheck:
    """Checks whether torch.compile on the CPU and, for a GPU, Triton's launcher can be built."""
    lacking = [
        finding
        for finding, is_lacking in (
            ("no C compiler: Triton kernels cannot be launched", has_gpu and c is None),
            ("no Python.h: Triton kernels cannot be launched", has_gpu and not has_headers),
            ("no C++ compiler: torch.compile kernels cannot run on the CPU", cpp is None),
        )
        if is_lacking
    ]
    if lacking:
        return MachineCheck("compilers", Level.WARN, "; ".join(lacking), "apt install g++ python3-dev")
    present = [Path(compiler).name for compiler in (c, cpp) if compiler]
    return MachineCheck(
        "compilers", Level.OK, " and ".join([", ".join(present), *(["Python.h"] if has_headers else [])])
    )


def check_nvcc(path: str | None, version_text: str) -> MachineCheck:
    """Reports nvcc at `path`, which gdnbench does not need; `version_text` is the output of `nvcc --version`."""
    if path is None:
        return MachineCheck("nvcc", Level.OK, "not found, and not needed: NVRTC builds the kernels")
    release = re.search(r"release ([\d.]+)", version_text)
    return MachineCheck(
        "nvcc", Level.OK, f"{release.group(1) if release else path}, not needed: NVRTC builds the kernels"
    )


def output_of(command: Sequence[str], limit_s: float = 20) -> str:
    """Returns a tool's stdout; empty if it cannot run or takes longer than `limit_s` seconds."""
    try:
        return run_tool(command, limit_s=limit_s).output
    except OSError:
        return ""


def _first(*names: str) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)


_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38  # linux/capability.h
_FIRST_DRIVER_WITH_PERFMON = 565
ALLOW_EVERYBODY = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, "
    "then reboot; in a container, start it with --cap-add=SYS_ADMIN"
)


def find_ncu(root: Path = Path("/")) -> Path | None:
    """Finds Nsight Compute on the PATH, else the newest of the toolkit's and its own installer's below `root`."""
    return newest_installed("ncu", root, "usr/local/cuda*/bin/ncu", "opt/nvidia/nsight-compute/*/ncu")


def newest_installed(program: str, root: Path, *patterns: str) -> Path | None:
    """Returns a program on the PATH, else the newest, by its path's numbers, of a glob pattern below `root`."""
    if on_path := shutil.which(program):
        return Path(on_path)
    found = [path for pattern in patterns for path in root.glob(pattern)]
    return max(found, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))], default=None)


def check_ncu(path: Path | None, version_text: str) -> MachineCheck:
    """Checks whether Nsight Compute is at `path`, and runs: `version_text` is the output of `ncu --version`."""
    if path is None:
        remedy = "install it: https://developer.nvidia.com/nsight-compute"
        return MachineCheck("ncu", Level.WARN, "not found: no hardware counters", remedy)
    version = re.search(r"Version ([\d.]+)", version_text)
    if version is None:
        return MachineCheck("ncu", Level.WARN, f"{path} does not run", "reinstall Nsight Compute")
    return MachineCheck("ncu", Level.OK, f"{version.group(1)} ({path})")


def check_counters(driver_params: str, process_status: str, driver_version: str | None) -> MachineCheck:
    """Checks whether this process may read the GPU's hardware counters.

    `driver_params` is the text of /proc/driver/nvidia/params, empty if unreadable, `process_status` that of
    /proc/self/status. Drivers from 565 on accept CAP_PERFMON as well as CAP_SYS_ADMIN.
    """
    admin_only = re.search(r"RmProfilingAdminOnly:\s*(\d)", driver_params)
    if admin_only is None:
        finding = "permission unknown; where it is missing, ncu says ERR_NVGPUCTRPERM"
        return MachineCheck("counters", Level.WARN, finding, ALLOW_EVERYBODY)
    if admin_only.group(1) == "0":
        return MachineCheck("counters", Level.OK, "every user may read them")
    if _may_profile(process_status, driver_version):
        return MachineCheck("counters", Level.OK, "this process may read them, other users may not")
    return MachineCheck("counters", Level.WARN, "only administrators may read them: ncu will refuse", ALLOW_EVERYBODY)


def _may_profile(process_status: str, driver_version: str | None) -> bool:
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", process_status, re.MULTILINE)
    held = int(effective.group(1), 16) if effective else 0
    knows_perfmon = driver_version is not None and version_numbers(driver_version)[0] >= _FIRST_DRIVER_WITH_PERFMON
    return bool(held >> _CAP_SYS_ADMIN & 1) or (knows_perfmon and bool(held >> _CAP_PERFMON & 1))


def check_cupti(version: str | None, torch_cuda: str | None, driver_cuda: str | None) -> MachineCheck:
    """Checks whether CUPTI, which gives kernel times through torch's profiler, fits torch and the driver.

    `version` is the nvidia-cuda-cupti wheel's, None without it; `torch_cuda` is the CUDA that torch is built for,
    `13.0`, `driver_cuda` the newest that the driver supports.
    """
    if version is None:
        return MachineCheck("CUPTI", Level.OK, "no wheel of its own: torch brings or finds it")
    if torch_cuda and version_numbers(version) != version_numbers(torch_cuda):
        remedy = f"pip install 'nvidia-cuda-cupti=={torch_cuda}.*'"
        return MachineCheck("CUPTI", Level.WARN, f"{version}, but torch is built for CUDA {torch_cuda}", remedy)
    if driver_cuda and version_numbers(version)[0] > version_numbers(driver_cuda)[0]:
        finding = f"{version}, but the driver goes up to CUDA {driver_cuda}"
        return MachineCheck("CUPTI", Level.WARN, finding, "update the NVIDIA driver")
    return MachineCheck("CUPTI", Level.OK, f"{version}, fits torch and the driver")
