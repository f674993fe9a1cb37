"""Reads the machine once and runs every check on it: Python, torch, packages, compilers, GPU, driver, results."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gdnbench.doctor.loading import LoadResult, TorchGpu, load_libraries
from gdnbench.errors import GpuNotFoundError, RunFormatError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.machine.provenance import GpuProcess, GpuState, host_name, package_version, read_state
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


_OLDEST_DRIVER = {12: "525", 13: "580"}  # the oldest driver that supports a CUDA major version
HOT_C = 80
_UNKNOWN = "the driver does not say"
_MIB, _GIB = 2**20, 2**30


def check_absence(hidden: Sequence[Gpu], torch_gpus: Sequence[TorchGpu]) -> MachineCheck:
    """Explains why no GPU was found, and what works without one.

    `hidden` are the GPUs found without regard to `CUDA_VISIBLE_DEVICES`; if only torch sees GPUs, NVML is missing.
    """
    if hidden:
        names = ", ".join(f"{gpu.index}: {gpu.name}" for gpu in hidden)
        return MachineCheck("GPU", Level.WARN, f"CUDA_VISIBLE_DEVICES hides what there is ({names})", "unset it")
    if torch_gpus:
        finding = f"torch sees the {torch_gpus[0].name}, but NVML (libnvidia-ml.so.1) is not here"
        remedy = "in a container, start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        return MachineCheck("GPU", Level.WARN, finding, remedy)
    finding = "none here: `gdnbench run` times the torch kernels on the CPU and builds the rest for sm_90 and sm_100"
    return MachineCheck("GPU", Level.WARN, finding)


def check_driver(state: GpuState, nvrtc_version: str | None) -> MachineCheck:
    """Checks whether the driver takes the compiler's code, as it does within one CUDA major version."""
    supported = state.cuda_driver_version
    if supported is None:
        return MachineCheck(
            "driver", Level.WARN, f"{state.driver_version or 'version unknown'}: it does not say its CUDA"
        )
    finding = f"{state.driver_version}, for CUDA up to {supported}"
    needed = version_numbers(nvrtc_version)[0] if nvrtc_version else 0
    if needed > version_numbers(supported)[0]:
        oldest = _OLDEST_DRIVER.get(needed)
        remedy = f"install driver {oldest} or newer" if oldest else "update the NVIDIA driver"
        finding += f", but kernels are built with CUDA {needed}"
        return MachineCheck("driver", Level.FAIL, finding, remedy, needed_to_measure=True)
    return MachineCheck("driver", Level.OK, finding, needed_to_measure=True)


def check_gpu(gpu: Gpu, state: GpuState, l2_bytes: int, *, is_chosen: bool) -> tuple[MachineCheck, ...]:
    """Checks one GPU, whose `state` was just read; `l2_bytes` is 0 if unknown; a failure of the chosen one is fatal."""
    name = f"GPU {gpu.index}"
    return (
        _check_model(name, gpu, state, l2_bytes, is_chosen),
        _check_clocks(f"{name} clocks", gpu, state),
        _check_heat(f"{name} heat", state),
        _check_users(f"{name} users", state),
    )


def _check_model(name: str, gpu: Gpu, state: GpuState, l2_bytes: int, is_chosen: bool) -> MachineCheck:
    parts = [
        f"{gpu.sms} SMs" if gpu.sms else "",
        f"{l2_bytes / _MIB:.0f} MiB L2" if l2_bytes else "",
        f"{gpu.memory_bytes / _GIB:.0f} GiB" if gpu.memory_bytes else "",
        "" if state.ecc is None else f"ECC {'on' if state.ecc else 'off'}",
    ]
    finding = ", ".join([f"{gpu.name} ({gpu.arch})", *filter(None, parts)])
    if state.compute_mode == "prohibited":
        remedy = f"sudo nvidia-smi -i {gpu.index} -c DEFAULT"
        return MachineCheck(name, Level.FAIL, f"{finding}; its compute mode prohibits all work", remedy, is_chosen)
    if state.mig:
        remedy = f"sudo nvidia-smi -i {gpu.index} -mig 0"
        return MachineCheck(
            name, Level.WARN, f"{finding}; MIG is on: times hold for a slice of the GPU", remedy, is_chosen
        )
    return MachineCheck(name, Level.OK, finding, needed_to_measure=is_chosen)


def _check_clocks(name: str, gpu: Gpu, state: GpuState) -> MachineCheck:
    parts = [_clock("SM", state.sm_mhz, state.sm_max_mhz), _clock("memory", state.memory_mhz, state.memory_max_mhz)]
    finding = ", ".join(filter(None, parts)) or _UNKNOWN
    if not state.throttle_reasons:
        return MachineCheck(name, Level.OK, finding)
    finding += f"; held down by: {', '.join(state.throttle_reasons)}"
    return MachineCheck(name, Level.WARN, finding, f"see why: nvidia-smi -i {gpu.index} -q -d PERFORMANCE,CLOCK")


def _clock(name: str, now_mhz: int | None, max_mhz: int | None) -> str:
    if now_mhz is None:
        return ""
    return f"{name} {now_mhz} of {max_mhz} MHz" if max_mhz else f"{name} {now_mhz} MHz"


def _check_heat(name: str, state: GpuState) -> MachineCheck:
    parts = [
        "" if state.temperature_c is None else f"{state.temperature_c} °C",
        "" if state.power_w is None else f"{state.power_w:.0f} W drawn",
        "" if state.power_limit_w is None else f"limit {state.power_limit_w:.0f} W",
    ]
    finding = ", ".join(filter(None, parts)) or _UNKNOWN
    if state.temperature_c is not None and state.temperature_c >= HOT_C:
        return MachineCheck(name, Level.WARN, f"{finding}; clocks fall when it is hot", f"let it cool below {HOT_C} °C")
    return MachineCheck(name, Level.OK, finding)


def _check_users(name: str, state: GpuState) -> MachineCheck:
    if state.processes is None:
        return MachineCheck(name, Level.OK, _UNKNOWN)
    if not state.processes:
        return MachineCheck(name, Level.OK, "no other process computes on it")
    who = ", ".join(map(_describe, state.processes))
    finding = f"other processes compute on it, and share its time and L2: {who}"
    return MachineCheck(name, Level.WARN, finding, "wait until they end, or take another GPU with --gpu")


def _describe(process: GpuProcess) -> str:
    program = process.name.rpartition("/")[2]
    memory = f"{process.memory_bytes / _GIB:.1f} GiB" if process.memory_bytes else ""
    details = " ".join(filter(None, (program, memory)))
    return f"pid {process.pid}" + (f" ({details})" if details else "")


def check_results(results: Path) -> MachineCheck:
    """Checks whether runs can be written to the folder, or the folder made, by a trial that leaves nothing behind."""
    remedy = "choose another folder with --out"
    place = next(path for path in (results, *results.absolute().parents) if path.exists())
    if not place.is_dir():
        return MachineCheck("results", Level.FAIL, f"{place} is a file, not a folder", remedy, needed_to_measure=True)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        finding = f"cannot write to {place}: {error.strerror}"
        return MachineCheck("results", Level.FAIL, finding, remedy, needed_to_measure=True)
    finding = f"{results} can be {'written to' if place == results else 'made'}"
    return MachineCheck("results", Level.OK, finding, needed_to_measure=True)


def check_calibration(host: str, gpu: Gpu, driver: str | None) -> MachineCheck:
    """Checks the last whole calibration of a GPU model on a host; `driver` is today's version, or None if unknown."""
    from gdnbench.store.calibration import in_words, last_calibration  # loads numpy

    calibrate = f"gdnbench doctor --calibrate --gpu {gpu.slug}"
    try:
        found = last_calibration(host, gpu.slug)
    except RunFormatError as error:
        return MachineCheck("calibration", Level.WARN, error.message, calibrate)
    if found is None:
        finding = f"none of the {gpu.name} here: how often verdicts are wrong is not known"
        return MachineCheck("calibration", Level.OK, finding, calibrate)
    text = in_words(found.summary)
    if found.all_equal.false_claims.low > 1.0 - found.confidence:  # beyond chance
        finding = f"{text}: equal kernels are called different too often"
        remedy = "measure on a quieter machine, or with more --processes; then gdnbench doctor --calibrate"
        return MachineCheck("calibration", Level.WARN, finding, remedy)
    if found.driver != driver:
        return MachineCheck("calibration", Level.OK, f"{text}, with driver {found.driver or 'unknown'}", calibrate)
    return MachineCheck("calibration", Level.OK, text)


def run_checks(results: Path, gpu: str = "auto") -> tuple[MachineCheck, ...]:
    """Checks everything that a measurement depends on, in the order a person would look.

    Loads torch, triton and cuda-bench in a separate process, which takes some seconds. The folder `results` is not
    created. `gpu` is as `--gpu` takes it; `auto` checks every GPU.
    """
    present = list_gpus()
    chosen, not_found = _choose(gpu, present)
    loaded = load_libraries(chosen)
    state = read_state(chosen) if chosen else GpuState()
    return (
        check_python(),
        check_torch(loaded["torch"], chosen, state.cuda_driver_version),
        *_check_libraries(loaded, chosen),
        *([not_found] if not_found else []),
        *([] if chosen or not_found else [_explain_absence(gpu, loaded["torch"])]),
        *(_check_gpus(present if gpu == "auto" else [chosen], chosen, state, loaded["torch"]) if chosen else []),
        *([check_calibration(host_name(), chosen, state.driver_version)] if chosen else []),
        check_results(results),
    )


def _choose(wanted: str, present: Sequence[Gpu]) -> tuple[Gpu | None, MachineCheck | None]:
    try:
        return select_gpu(wanted, present), None
    except GpuNotFoundError as error:
        finding, remedy = error.message.rstrip("."), error.hint.rstrip(".")
        return None, MachineCheck("GPU", Level.FAIL, finding, remedy, needed_to_measure=True)


def _explain_absence(wanted: str, torch: LoadResult) -> MachineCheck:
    if wanted.strip().lower() == "cpu":
        return MachineCheck("GPU", Level.OK, "not looked at, as --gpu cpu asks")
    return check_absence(hidden=list_gpus({}), torch_gpus=torch.gpus)


def _check_libraries(loaded: dict[str, LoadResult], gpu: Gpu | None) -> list[MachineCheck]:
    version = package_version
    return [
        check_triton(loaded["triton"]),
        check_nvrtc(loaded["nvrtc"], version("cuda-core"), version("nvidia-cuda-nvrtc")),
        check_nvbench(loaded["nvbench"], loaded["libcuda"], version("cuda-bench"), gpu),
        check_compilers(
            os.environ.get("CC") or _first("gcc", "clang", "cc"),
            os.environ.get("CXX") or _first("g++", "clang++", "c++"),
            has_headers=Path(sysconfig.get_path("include"), "Python.h").exists(),
            has_gpu=gpu is not None,
        ),
    ]


def _check_gpus(looked_at: Sequence[Gpu], chosen: Gpu, state: GpuState, torch: LoadResult) -> list[MachineCheck]:
    l2_bytes = {gpu.uuid: gpu.l2_bytes for gpu in torch.gpus}
    checks = [check_driver(state, package_version("nvidia-cuda-nvrtc"))]
    for gpu in looked_at:
        checks += check_gpu(gpu, read_state(gpu), l2_bytes.get(gpu.uuid, 0), is_chosen=gpu == chosen)
    return checks
