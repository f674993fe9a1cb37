"""Checks of Python, torch, the packages that build and time the kernels, and the compilers."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sysconfig
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gdnbench.doctor.loading import LoadResult
from gdnbench.model.gpu import Gpu


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


def check_python() -> MachineCheck:
    """Names this Python; gdnbench is not imported by one that is too old."""
    return MachineCheck("Python", Level.OK, platform.python_version(), needed_to_measure=True)


_CUDA_BUILD = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130"


def check_torch(torch: LoadResult, gpu: Gpu | None, driver_cuda: str | None) -> MachineCheck:
    """Checks whether torch loads and computes on `gpu`, None for the CPU; `driver_cuda` is the driver's newest."""
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
    packages = {"cuda-core": core_version, "nvidia-cuda-nvrtc": nvrtc_version}
    missing = [package for package, version in packages.items() if version is None]
    if missing:
        return MachineCheck("NVRTC", Level.WARN, "not installed: no CUDA kernels", f"pip install {' '.join(missing)}")
    versions = f"{nvrtc_version} with cuda-core {core_version}"
    if nvrtc.problem:
        remedy = "pip install --force-reinstall cuda-core 'nvidia-cuda-nvrtc<13.2'"
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
    lacking = []
    if has_gpu and c is None:
        lacking.append("no C compiler: Triton kernels cannot be launched")
    if has_gpu and not has_headers:
        lacking.append("no Python.h: Triton kernels cannot be launched")
    if cpp is None:
        lacking.append("no C++ compiler: torch.compile kernels cannot run on the CPU")
    if lacking:
        return MachineCheck("compilers", Level.WARN, "; ".join(lacking), "apt install g++ python3-dev")
    present = [Path(compiler).name for compiler in (c, cpp) if compiler]
    return MachineCheck(
        "compilers", Level.OK, " and ".join([", ".join(present), *(["Python.h"] if has_headers else [])])
    )


def _first(*names: str) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)
