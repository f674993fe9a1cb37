"""Reads the machine once and runs every check on it: hardware, software, calibration, files that shadow modules."""

from __future__ import annotations

import os
import pkgutil
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import gdnbench
from gdnbench.doctor import hardware, software
from gdnbench.doctor.check import Level, MachineCheck
from gdnbench.doctor.hardware import check_absence, check_driver, check_gpu
from gdnbench.doctor.loading import LoadResult, load_libraries
from gdnbench.doctor.software import check_python, check_torch
from gdnbench.errors import GpuNotFoundError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.machine.provenance import GpuState, host_name, package_version, read_state
from gdnbench.model.gpu import Gpu
from gdnbench.wording import first_of, plural

_NAME = "modules"


def check_shadows(folder: Path, python_path: Sequence[Path], installed: Sequence[str]) -> MachineCheck:
    """Checks for files in the working folder or on PYTHONPATH named like a module of Python's or an installed one.

    gdnbench and its workers do not import from the working folder, but programs that libraries start there do. All of
    them import from PYTHONPATH; there only Python's own modules count, because it may hold libraries. `installed` lists
    the paths of installed modules.
    """
    on_path = [each for each in python_path if each.resolve() != folder.resolve()]
    here = _shadows(folder, installed)
    there = [path for each in on_path for path in _shadows(each, ())]
    if not here and not there:
        return MachineCheck(_NAME, Level.OK, "none is shadowed in the working folder or on PYTHONPATH")
    is_named = len(on_path) < len(python_path)
    told = []
    if here:
        what = "imported in place of others, for PYTHONPATH names it" if is_named else "gdnbench passes over them"
        told.append(f"{first_of([path.name for path in here])} in the working folder: {what}")
    if there:
        told.append(f"{first_of([str(path) for path in there])} on PYTHONPATH: imported in place of Python's own")
    rename = f"rename {plural(len(here) + len(there), 'file')}: programs that libraries start may import them, too"
    return MachineCheck(_NAME, Level.WARN, "; ".join(told), rename)


def _shadows(folder: Path, installed: Sequence[str]) -> list[Path]:
    """Returns the modules in a folder named like one of Python's own, or like one installed elsewhere."""
    found = []
    for module in pkgutil.iter_modules([str(folder)]):
        own = PathFinder.find_spec(module.name, [str(folder)])
        if own is None or own.origin is None or _is_same(own.origin, str(gdnbench.__file__)):
            continue
        other = PathFinder.find_spec(module.name, list(installed)) if installed else None
        is_installed = other is not None and other.origin is not None and not _is_same(other.origin, own.origin)
        if module.name in sys.stdlib_module_names or is_installed:
            path = Path(own.origin)
            found.append(path.parent if module.ispkg else path)
    return found


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def read_shadows() -> MachineCheck:
    """Runs `check_shadows` on this process's paths."""
    named = [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    known = {os.path.realpath(each) for each in named}
    installed = [each for each in sys.path if os.path.realpath(each) not in known]
    return check_shadows(Path.cwd(), named, [each for each in installed if Path(each).resolve() != Path.cwd()])


def run_checks(results: Path, gpu: str = "auto") -> tuple[MachineCheck, ...]:
    """Checks everything that a measurement depends on, in the order a person would look.

    Loads torch, triton and cuda-bench in a separate process, which takes some seconds. The folder `results` is not
    created. `gpu` is as `--gpu` takes it; `auto` checks every GPU.
    """
    from gdnbench.doctor.calibration import check_calibration  # loads numpy

    present = list_gpus()
    chosen, not_found = _choose(gpu, present)
    loaded = load_libraries(chosen)
    state = read_state(chosen) if chosen else GpuState()
    return (
        check_python(),
        read_shadows(),
        check_torch(loaded["torch"], chosen, state.cuda_driver_version),
        *_check_libraries(loaded, chosen),
        *([not_found] if not_found else []),
        *([] if chosen or not_found else [_explain_absence(gpu, loaded["torch"])]),
        *(_check_gpus(present if gpu == "auto" else [chosen], chosen, state, loaded["torch"]) if chosen else []),
        *([check_calibration(host_name(), chosen, state.driver_version)] if chosen else []),
        *(_check_profilers(state, loaded["torch"]) if chosen else []),
        _check_nvcc(),
        hardware.check_results(results),
        hardware.check_disk(hardware.free_bytes(results)),
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
        software.check_triton(loaded["triton"]),
        software.check_nvrtc(loaded["nvrtc"], version("cuda-core"), version("nvidia-cuda-nvrtc")),
        software.check_nvbench(loaded["nvbench"], loaded["libcuda"], version("cuda-bench"), gpu),
        software.check_fla(version("fla-core")),
        software.check_compilers(
            software.find_c_compiler(),
            software.find_cpp_compiler(),
            software.has_python_headers(),
            has_gpu=gpu is not None,
        ),
    ]


def _check_gpus(looked_at: Sequence[Gpu], chosen: Gpu, state: GpuState, torch: LoadResult) -> list[MachineCheck]:
    l2_bytes = {gpu.uuid: gpu.l2_bytes for gpu in torch.gpus}
    checks = [check_driver(state, package_version("nvidia-cuda-nvrtc"))]
    for gpu in looked_at:
        checks += check_gpu(gpu, read_state(gpu), l2_bytes.get(gpu.uuid, 0), is_chosen=gpu == chosen)
    return checks


def _check_profilers(state: GpuState, torch: LoadResult) -> list[MachineCheck]:
    ncu = software.find_ncu()
    cupti = package_version("nvidia-cuda-cupti") or package_version("nvidia-cuda-cupti-cu12")
    driver_params, process_status = _text("/proc/driver/nvidia/params"), _text("/proc/self/status")
    return [
        software.check_ncu(ncu, software.output_of([str(ncu), "--version"]) if ncu else ""),
        software.check_counters(driver_params, process_status, state.driver_version),
        software.check_cupti(cupti, torch.cuda, state.cuda_driver_version),
    ]


def _check_nvcc() -> MachineCheck:
    nvcc = shutil.which("nvcc")
    return software.check_nvcc(nvcc, software.output_of([nvcc, "--version"]) if nvcc else "")


def _text(path: str) -> str:
    """Reads a file of the kernel; empty if it is missing or forbidden."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
