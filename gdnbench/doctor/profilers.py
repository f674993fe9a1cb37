"""Checks the profilers: Nsight Compute, its permission to read counters, and CUPTI."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from gdnbench.doctor.check import Level, MachineCheck, version_numbers

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
