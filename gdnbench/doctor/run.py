"""Reads the machine once and runs every check on the result."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from gdnbench.doctor import hardware, profilers, software
from gdnbench.doctor.check import Level, MachineCheck
from gdnbench.doctor.hardware import check_absence, check_driver, check_gpu
from gdnbench.doctor.loading import LoadResult, load_libraries
from gdnbench.doctor.shadows import read_shadows
from gdnbench.doctor.software import check_python, check_torch
from gdnbench.errors import GpuNotFoundError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.machine.provenance import host_name, package_version
from gdnbench.machine.state import GpuState, read_state
from gdnbench.model.gpu import Gpu


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
    ncu = profilers.find_ncu()
    cupti = package_version("nvidia-cuda-cupti") or package_version("nvidia-cuda-cupti-cu12")
    driver_params, process_status = _text("/proc/driver/nvidia/params"), _text("/proc/self/status")
    return [
        profilers.check_ncu(ncu, software.output_of([str(ncu), "--version"]) if ncu else ""),
        profilers.check_counters(driver_params, process_status, state.driver_version),
        profilers.check_cupti(cupti, torch.cuda, state.cuda_driver_version),
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
