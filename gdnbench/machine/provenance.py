"""What a run's numbers depend on, for its run.json: the machine, and the GPU's clocks, temperature, power and users."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gdnbench.machine.gpus import NvmlReader, open_nvml
from gdnbench.model.gpu import Gpu
from gdnbench.origin import command_origin
from gdnbench.process.command import run_tool

_SM_CLOCK, _MEMORY_CLOCK = 1, 2  # nvmlClockType_t
_TEMPERATURE_GPU = 0  # nvmlTemperatureSensors_t
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}

_IDLE = 0x1
_THROTTLE_REASONS = {
    0x002: "clocks set by the user",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability limit",
}

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class GpuProcess(NamedTuple):
    """Another process that holds a compute context on a GPU."""

    pid: int
    name: str  # empty where it may not be read, as in a container
    memory_bytes: int | None


@dataclass(frozen=True)
class GpuState:
    """A GPU's condition; None wherever the driver does not say.

    Attributes:
        sm_mhz: SM clock now; an idle GPU lowers it. `sm_max_mhz` is the highest that it may take.
        memory_mhz: memory clock now; `memory_max_mhz` is the highest.
        power_w: drawn now, in watts; `power_limit_w` is the enforced limit.
        throttle_reasons: what lowers the clocks now, in words; empty if nothing does.
        driver_version: `580.159.04`; `cuda_driver_version` is the newest CUDA that it supports, `13.0`.
        compute_mode: `default`, `exclusive process`, `exclusive thread` or `prohibited`.
    """

    sm_mhz: int | None = None
    sm_max_mhz: int | None = None
    memory_mhz: int | None = None
    memory_max_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    ecc: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    mig: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None


def read_state(gpu: Gpu) -> GpuState:
    """Reads a GPU's condition, all None if the GPU or the driver has gone. Never raises for what NVML refuses."""
    with open_nvml() as nvml:
        handle = nvml.ask("DeviceGetHandleByUUID", gpu.uuid) if nvml else None
        return GpuState() if nvml is None or handle is None else _read(nvml, handle)


def _read(nvml: NvmlReader, handle: Any) -> GpuState:
    def ask(function: str, *args: Any) -> Any:
        return nvml.ask(f"DeviceGet{function}", handle, *args)

    return GpuState(
        sm_mhz=ask("ClockInfo", _SM_CLOCK),
        sm_max_mhz=ask("MaxClockInfo", _SM_CLOCK),
        memory_mhz=ask("ClockInfo", _MEMORY_CLOCK),
        memory_max_mhz=ask("MaxClockInfo", _MEMORY_CLOCK),
        temperature_c=ask("Temperature", _TEMPERATURE_GPU),
        power_w=_map(ask("PowerUsage"), _watts),
        power_limit_w=_map(ask("EnforcedPowerLimit"), _watts),
        ecc=_map(ask("EccMode"), _current),
        throttle_reasons=_map(ask("CurrentClocksEventReasons"), throttle_words),
        processes=_map(ask("ComputeRunningProcesses"), lambda found: _processes(nvml, found)),
        driver_version=nvml.ask("SystemGetDriverVersion"),
        cuda_driver_version=_map(
            nvml.ask("SystemGetCudaDriverVersion"), lambda version: f"{version // 1000}.{version % 1000 // 10}"
        ),
        mig=_map(ask("MigMode"), _current),
        persistence=_map(ask("PersistenceMode"), bool),
        compute_mode=_map(ask("ComputeMode"), _COMPUTE_MODES.get),
    )


def throttle_words(bits: int) -> tuple[str, ...]:
    """Names the reasons in an `nvmlClocksEventReasons` mask, idleness left out."""
    known = sum(_THROTTLE_REASONS) | _IDLE
    words = tuple(word for bit, word in _THROTTLE_REASONS.items() if bits & bit)
    return words + ((f"unknown reason {bits & ~known:#x}",) if bits & ~known else ())


def _processes(nvml: NvmlReader, found: list[Any]) -> tuple[GpuProcess, ...]:
    return tuple(
        GpuProcess(process.pid, nvml.ask("SystemGetProcessName", process.pid) or "", process.usedGpuMemory)
        for process in found
        if process.pid != os.getpid()
    )


def _map(value: _In | None, convert: Callable[[_In], _Out]) -> _Out | None:
    return None if value is None else convert(value)


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _current(current_and_pending: list[int]) -> bool:
    return bool(current_and_pending[0])


PACKAGES = (
    "torch",
    "triton",
    "cuda-bench",
    "cuda-core",
    "cuda-bindings",
    "cupti-python",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-cccl",
    "nvidia-cutlass-dsl",
    "fla-core",
    "flashinfer-python",
    "numpy",
)
_VARIABLES = re.compile(r"(TRITON|CUDA|CUTE|NVIDIA|TORCH|PYTORCH)_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_GIT_LIMIT_S = 10


def describe_machine(gpu: Gpu | None) -> dict[str, Any]:
    """Describes this machine as JSON: `host`, `gpu` (None on the CPU), `versions` and `environment`.

    A run requested from another machine also has `target`, this machine's name there.
    """
    origin = command_origin()
    return {
        **({"target": origin.target} if origin and origin.target else {}),
        "host": _describe_host(),
        "gpu": None if gpu is None else describe_gpu(gpu, read_state(gpu)),
        "versions": library_versions(),
        "environment": relevant_variables(os.environ),
    }


def describe_gpu(gpu: Gpu, state: GpuState) -> dict[str, Any]:
    """The GPU and those of its settings that change its speed, without what changes by the second."""
    return {
        "index": gpu.index,
        "name": gpu.name,
        "uuid": gpu.uuid,
        "capability": list(gpu.capability),
        "sms": gpu.sms,
        "l2_bytes": gpu.l2_bytes,
        "memory_bytes": gpu.memory_bytes,
        "memory_mhz": state.memory_mhz,
        "sm_max_mhz": state.sm_max_mhz,
        "power_limit_w": state.power_limit_w,
        "ecc": state.ecc,
        "mig": state.mig,
        "persistence": state.persistence,
        "compute_mode": state.compute_mode,
        "driver": state.driver_version,
        "cuda_driver": state.cuda_driver_version,
    }


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Every `TRITON_*`, `CUDA_*`, `NVIDIA_*`, `TORCH_*` and `PYTORCH_*` variable, sorted.

    Runs are published, so the value of one named like a secret (`NVIDIA_API_KEY`) is withheld.
    """
    names = sorted(name for name in environ if _VARIABLES.match(name))
    return {name: "(withheld)" if _SECRET.search(name) else environ[name] for name in names}


@cache
def package_version(package: str) -> str | None:
    """Returns an installed package's version, read without importing it, or None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_state(folder: Path) -> dict[str, Any]:
    """The checkout around a folder: `commit`, `branch` and `dirty`; None where git does not say.

    A file that git does not track makes the checkout dirty: it may be a kernel. For a run requested from another
    machine, it is the checkout there, from which its sources were sent.
    """
    if (origin := command_origin()) and origin.git:
        return dict(origin.git)
    told = _git(folder, "status", "--porcelain=v2", "--branch")
    if told is None:
        return dict.fromkeys(("commit", "branch", "dirty"))
    lines = told.splitlines()
    heads = dict(line.split(" ", 2)[1:] for line in lines if line.startswith("# branch."))
    known = {name: "" if value.startswith("(") else value for name, value in heads.items()}  # (initial), (detached)
    return {
        "commit": known.get("branch.oid") or None,
        "branch": known.get("branch.head") or None,
        "dirty": any(not line.startswith("#") for line in lines),
    }


def _git(folder: Path, *arguments: str) -> str | None:
    """Runs git; returns None if it fails, is missing or hangs. Takes no lock that another git might want."""
    try:
        done = run_tool(["git", "--no-optional-locks", "-C", str(folder), *arguments], limit_s=_GIT_LIMIT_S)
    except OSError:
        return None
    return done.output.strip() if done.returncode == 0 else None


def library_versions() -> dict[str, str | None]:
    """The versions of Python and of what makes, launches or times kernels; None if not installed."""
    import platform

    return {"python": platform.python_version(), **{package: package_version(package) for package in PACKAGES}}


def host_name() -> str:
    """The host's own name."""
    import platform

    return platform.node()


def _describe_host() -> dict[str, Any]:
    import platform

    return {
        "hostname": host_name(),
        "os": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
    }


def _cpu_model() -> str:
    """The processor's name; its architecture where the kernel gives no name, as on Arm."""
    import platform

    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named.group(1) if named else platform.machine()
