"""Is a GPU cool, free and at its full clock?"""

from __future__ import annotations

from gdnbench.doctor.check import Check, Level
from gdnbench.machine import GpuProcess, GpuState
from gdnbench.model import Gpu

HOT_C = 80
_UNKNOWN = "the driver does not say"
_MIB, _GIB = 2**20, 2**30


def check_gpu(gpu: Gpu, state: GpuState, l2_bytes: int, *, is_chosen: bool) -> tuple[Check, ...]:
    """Looks at one GPU.

    Args:
        gpu: the GPU.
        state: its condition, read just now.
        l2_bytes: its L2 cache in bytes; 0 where unknown.
        is_chosen: whether it is the one to measure on, so that nothing can be measured if it cannot be used.
    """
    name = f"GPU {gpu.index}"
    return (
        _check_model(name, gpu, state, l2_bytes, is_chosen),
        _check_clocks(f"{name} clocks", gpu, state),
        _check_heat(f"{name} heat", state),
        _check_users(f"{name} users", state),
    )


def _check_model(name: str, gpu: Gpu, state: GpuState, l2_bytes: int, is_chosen: bool) -> Check:
    parts = [
        f"{gpu.sms} SMs" if gpu.sms else "",
        f"{l2_bytes / _MIB:.0f} MiB L2" if l2_bytes else "",
        f"{gpu.memory_bytes / _GIB:.0f} GiB" if gpu.memory_bytes else "",
        "" if state.ecc is None else f"ECC {'on' if state.ecc else 'off'}",
    ]
    finding = ", ".join([f"{gpu.name} ({gpu.arch})", *filter(None, parts)])
    if state.compute_mode == "prohibited":
        remedy = f"sudo nvidia-smi -i {gpu.index} -c DEFAULT"
        return Check(name, Level.FAIL, f"{finding}; its compute mode prohibits all work", remedy, is_chosen)
    if state.mig:
        remedy = f"sudo nvidia-smi -i {gpu.index} -mig 0"
        return Check(name, Level.WARN, f"{finding}; MIG is on: times hold for a slice of the GPU", remedy, is_chosen)
    return Check(name, Level.OK, finding, needed_to_measure=is_chosen)


def _check_clocks(name: str, gpu: Gpu, state: GpuState) -> Check:
    parts = [_clock("SM", state.sm_mhz, state.sm_max_mhz), _clock("memory", state.memory_mhz, state.memory_max_mhz)]
    finding = ", ".join(filter(None, parts)) or _UNKNOWN
    if not state.throttle_reasons:
        return Check(name, Level.OK, finding)
    finding += f"; held down by: {', '.join(state.throttle_reasons)}"
    return Check(name, Level.WARN, finding, f"see why: nvidia-smi -i {gpu.index} -q -d PERFORMANCE,CLOCK")


def _clock(name: str, now_mhz: int | None, max_mhz: int | None) -> str:
    if now_mhz is None:
        return ""
    return f"{name} {now_mhz} of {max_mhz} MHz" if max_mhz else f"{name} {now_mhz} MHz"


def _check_heat(name: str, state: GpuState) -> Check:
    parts = [
        "" if state.temperature_c is None else f"{state.temperature_c} °C",
        "" if state.power_w is None else f"{state.power_w:.0f} W drawn",
        "" if state.power_limit_w is None else f"limit {state.power_limit_w:.0f} W",
    ]
    finding = ", ".join(filter(None, parts)) or _UNKNOWN
    if state.temperature_c is not None and state.temperature_c >= HOT_C:
        return Check(name, Level.WARN, f"{finding}; clocks fall when it is hot", f"let it cool below {HOT_C} °C")
    return Check(name, Level.OK, finding)


def _check_users(name: str, state: GpuState) -> Check:
    if state.processes is None:
        return Check(name, Level.OK, _UNKNOWN)
    if not state.processes:
        return Check(name, Level.OK, "no other process computes on it")
    who = ", ".join(map(_describe, state.processes))
    finding = f"other processes compute on it, and share its time and L2: {who}"
    return Check(name, Level.WARN, finding, "wait until they end, or take another GPU with --gpu")


def _describe(process: GpuProcess) -> str:
    program = process.name.rpartition("/")[2]
    memory = f"{process.memory_bytes / _GIB:.1f} GiB" if process.memory_bytes else ""
    details = " ".join(filter(None, (program, memory)))
    return f"pid {process.pid}" + (f" ({details})" if details else "")
