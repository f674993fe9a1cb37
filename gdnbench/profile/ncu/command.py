"""The program ncu: its path, its command line, and what its messages mean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from gdnbench.errors import (
    MachineError,
    ProfilerError,
)
from gdnbench.process.command import Completed
from gdnbench.profile.process import DOMAIN, PROFILED, newest_installed

_SAID = re.compile(r"^==(?:ERROR|WARNING)==\s*(.+)", re.MULTILINE)

# The first match counts: ncu adds "No kernels were profiled" to most other messages.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"ERR_NVGPUCTRPERM|does not have permission",
        "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, "
        "then reboot; in a container, start it with --cap-add=SYS_ADMIN",
    ),
    (
        r"driver resource was unavailable|other tool \(like DCGM\)",
        "another program holds the GPU's counters: DCGM, or another profiler",
        "pause it: dcgmi profile --pause, and afterwards dcgmi profile --resume; or end the other profiler",
    ),
    (
        r"[Pp]rofiling is not supported on|[Uu]nsupported (GPU|chip|device)|driver is not compatible",
        "this ncu cannot profile this GPU with this driver",
        "install the newest (https://developer.nvidia.com/nsight-compute) and name it with --ncu PATH; "
        "`ncu --list-chips` shows what one knows",
    ),
)


def find_ncu(root: Path = Path("/")) -> Path | None:
    """Finds Nsight Compute on the PATH, else the newest of the toolkit's and its own installer's below `root`."""
    return newest_installed("ncu", root, "usr/local/cuda*/bin/ncu", "opt/nvidia/nsight-compute/*/ncu")


def need_ncu(given: Path | None) -> Path:
    """Returns the path of ncu, as given or found; raises MachineError if there is none."""
    if given is None:
        if found := find_ncu():
            return found
        raise MachineError(
            "ncu is neither on the PATH nor under /usr/local/cuda* and /opt/nvidia",
            "install it (https://developer.nvidia.com/nsight-compute), or say where it is with --ncu PATH, "
            "or read a report made elsewhere: gdnbench ncu --import FILE.ncu-rep",
        )
    program = shutil.which(given)
    if program is None:
        raise MachineError(f"--ncu {given}: there is no such program", "give the path of ncu itself")
    return Path(program)


def ncu_command(ncu: Path, report: Path) -> Sequence[str]:
    """The command line before the worker's: all sections and source, in its NVTX range, clocks not locked."""
    collected = ("--set", "full", "--import-source", "yes")
    controls = ("--clock-control", "none", "--cache-control", "all")
    watched = ("--nvtx", "--nvtx-include", f"{DOMAIN}@{PROFILED}")
    return (str(ncu), *collected, *controls, *watched, "--export", str(report))


def failure_of(ended: Completed) -> ProfilerError | MachineError:
    """Returns the error for an ncu run that failed or left no report."""
    said = " ".join(_SAID.findall(ended.output))
    for pattern, message, hint in _MEANINGS:
        if re.search(pattern, said):
            return ProfilerError(message, hint)
    if "Unable to write to file" in said:
        return MachineError(f"ncu cannot write its report: {said}", "choose another folder with --profiles")
    if "application returned an error code" in said:
        return ProfilerError(f"the kernel did not run: {_last_own_line(ended)}", "see `gdnbench verify`")
    if "No kernels were profiled" in said:
        return ProfilerError(
            "ncu saw no launch of the kernel", "does it launch in another process? see `gdnbench verify`"
        )
    return ProfilerError(
        f"ncu ended with {ended.returncode}: {said or ended.last_line or 'it said nothing'}", "see `gdnbench doctor`"
    )


def _last_own_line(ended: Completed) -> str:
    lines = [line for line in ended.output.splitlines() if line.strip() and not line.startswith("==")]
    return lines[-1].strip() if lines else "it said nothing"
