"""A GPU's condition at one moment: clocks, temperature, power, and the other processes that use it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from gdnbench.machine.gpus import NvmlReader, open_nvml
from gdnbench.model.gpu import Gpu

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
        temperature_c: of the GPU's die, in °C.
        power_w: drawn now, in watts; `power_limit_w` is the enforced limit.
        ecc: whether memory error correction is on.
        throttle_reasons: what lowers the clocks now, in words; empty if nothing does.
        driver_version: `580.159.04`; `cuda_driver_version` is the newest CUDA that it supports, `13.0`.
        mig: whether it is partitioned (multi-instance GPU).
        persistence: whether the driver stays loaded between programs.
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
        cuda_driver_version=_map(nvml.ask("SystemGetCudaDriverVersion"), _cuda_version),
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


def _cuda_version(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
