"""The program ncu: its path, its command line, and what its messages mean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from gdnbench.doctor.software import ALLOW_EVERYBODY, find_ncu
from gdnbench.errors import (
    CounterPermissionError,
    CountersTakenError,
    MachineError,
    NothingProfiledError,
    ProfilerError,
    ProfilerTooOldError,
    ReportFormatError,
    WorkerFailedError,
)
from gdnbench.process.command import Completed
from gdnbench.profile.process import DOMAIN, PROFILED

_SAID = re.compile(r"^==(?:ERROR|WARNING)==\s*(.+)", re.MULTILINE)

# The first match counts: ncu adds "No kernels were profiled" to most other messages.
_MEANINGS: tuple[tuple[str, type[ProfilerError], str, str], ...] = (
    (
        r"ERR_NVGPUCTRPERM|does not have permission",
        CounterPermissionError,
        "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
        ALLOW_EVERYBODY,
    ),
    (
        r"driver resource was unavailable|other tool \(like DCGM\)",
        CountersTakenError,
        "another program holds the GPU's counters: DCGM, or another profiler",
        "pause it: dcgmi profile --pause, and afterwards dcgmi profile --resume; or end the other profiler",
    ),
    (
        r"[Pp]rofiling is not supported on|[Uu]nsupported (GPU|chip|device)|driver is not compatible",
        ProfilerTooOldError,
        "this ncu cannot profile this GPU with this driver",
        "install the newest (https://developer.nvidia.com/nsight-compute) and name it with --ncu PATH; "
        "`ncu --list-chips` shows what one knows",
    ),
    (
        r"Failed to load report|not an Nsight Compute",
        ReportFormatError,
        "ncu cannot load the report",
        "was it made by a newer ncu? pip install -U ncu-report reads those, too",
    ),
)


def need_ncu(given: Path | None) -> Path:
    """Returns the path of ncu, as given or found; raises MachineError if there is none."""
    if given is None:
        if found := find_ncu():
            return found
        raise no_ncu("or read a report made elsewhere: gdnbench ncu --import FILE.ncu-rep")
    program = shutil.which(given)
    if program is None:
        raise MachineError(f"--ncu {given}: there is no such program", "give the path of ncu itself")
    return Path(program)


def no_ncu(alternative: str) -> MachineError:
    """Returns the error for a machine without ncu; `alternative` ends its hint."""
    return MachineError(
        "ncu is neither on the PATH nor under /usr/local/cuda* and /opt/nvidia",
        f"install it (https://developer.nvidia.com/nsight-compute), or say where it is with --ncu PATH, {alternative}",
    )


def ncu_command(ncu: Path, report: Path) -> Sequence[str]:
    """Returns ncu's command line, which the worker's follows.

    It collects every section and the source, for launches in the worker's own NVTX range only. Clocks are not locked,
    as in `gdnbench run`; caches are flushed before each replay, as that measures cold.
    """
    collected = ("--set", "full", "--import-source", "yes")
    controls = ("--clock-control", "none", "--cache-control", "all")
    watched = ("--nvtx", "--nvtx-include", f"{DOMAIN}@{PROFILED}")
    return (str(ncu), *collected, *controls, *watched, "--export", str(report))


def failure_of(ended: Completed) -> ProfilerError | MachineError:
    """Returns the error for an ncu run that failed or left no report."""
    said = " ".join(_SAID.findall(ended.output))
    for pattern, kind, message, hint in _MEANINGS:
        if re.search(pattern, said):
            return kind(message, hint)
    if "Unable to write to file" in said:
        return MachineError(f"ncu cannot write its report: {said}", "choose another folder with --profiles")
    if "application returned an error code" in said:
        return WorkerFailedError(f"the kernel did not run: {_last_own_line(ended)}", "see `gdnbench verify`")
    if "No kernels were profiled" in said:
        return NothingProfiledError(
            "ncu saw no launch of the kernel", "does it launch in another process? see `gdnbench verify`"
        )
    return ProfilerError(
        f"ncu ended with {ended.returncode}: {said or ended.last_line or 'it said nothing'}", "see `gdnbench doctor`"
    )


def _last_own_line(ended: Completed) -> str:
    """Returns the last line that the worker printed, without ncu's."""
    lines = [line for line in ended.output.splitlines() if line.strip() and not line.startswith("==")]
    return lines[-1].strip() if lines else "it said nothing"
