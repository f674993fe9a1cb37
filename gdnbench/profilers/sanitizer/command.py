"""The program compute-sanitizer: its path, its tools, and its command line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gdnbench.doctor.profilers import newest_installed
from gdnbench.errors import MachineError
from gdnbench.profilers.process import run_command

PROGRAM = "compute-sanitizer"
_HELP_LIMIT_S = 60.0
# More than are ever read; a kernel may have one per thread, each three lines of the log.
_MOST_REPORTS = "10000"
# Between allocations, so that an access beyond a tensor does not hit the next one.
_PADDING_BYTES = str(1 << 16)


class SanitizerTool(StrEnum):
    """The tools in the order in which they run: racecheck, the slowest, is last."""

    MEMCHECK = "memcheck"  # out of bounds, misaligned
    SYNCCHECK = "synccheck"  # barriers misused
    INITCHECK = "initcheck"  # reads of unwritten memory
    RACECHECK = "racecheck"  # races in shared memory


# Each is passed only if the program's --help lists it: versions differ.
_OPTIONS: tuple[tuple[str, str], ...] = (
    ("--print-limit", _MOST_REPORTS),
    ("--launch-timeout", "0"),  # importing torch takes longer than the default of ten seconds
    ("--target-processes", "application-only"),
    ("--show-backtrace", "device"),
    ("--strip-paths", "no"),
)
_ADDRESS_SPACE = "--initcheck-address-space"
_OPTIONS_OF: dict[SanitizerTool, tuple[tuple[str, str], ...]] = {
    # Failing CUDA calls are not the kernel's fault: torch and Triton probe the driver with some.
    SanitizerTool.MEMCHECK: (("--padding", _PADDING_BYTES), ("--report-api-errors", "no")),
    SanitizerTool.SYNCCHECK: (),
    SanitizerTool.INITCHECK: ((_ADDRESS_SPACE, "all"),),
    SanitizerTool.RACECHECK: (("--racecheck-report", "analysis"),),
}


@dataclass(frozen=True)
class Sanitizer:
    """An installed compute-sanitizer, and the options that its --help lists."""

    path: Path
    options: frozenset[str]

    @property
    def sees_shared(self) -> bool:
        """Whether initcheck also checks shared memory."""
        return _ADDRESS_SPACE in self.options

    def command(self, tool: SanitizerTool, log: Path) -> Sequence[str]:
        """Returns the command line of a tool, which the watched command follows; the tool writes to `log`."""
        wanted = (*_OPTIONS, *_OPTIONS_OF[tool])
        known = [word for option, value in wanted if option in self.options for word in (option, value)]
        return (str(self.path), "--tool", tool.value, "--log-file", str(log), *known)


def find_sanitizer(root: Path = Path("/")) -> Path | None:
    """Finds compute-sanitizer on the PATH, in `$CUDA_HOME/bin`, else in the newest toolkit in `usr` of `root`."""
    if not shutil.which(PROGRAM) and (home := os.environ.get("CUDA_HOME")):
        in_home = shutil.which(PROGRAM, path=str(Path(home) / "bin"))
        if in_home:
            return Path(in_home)
    return newest_installed(PROGRAM, root, f"usr/local/cuda*/bin/{PROGRAM}")


def need_sanitizer() -> Sanitizer:
    """Returns this machine's compute-sanitizer; raises MachineError if it is missing or does not run."""
    path = find_sanitizer()
    if path is None:
        raise MachineError(
            f"{PROGRAM} is neither on the PATH nor in $CUDA_HOME/bin and /usr/local/cuda*/bin",
            "it comes with the CUDA toolkit (https://developer.nvidia.com/cuda-downloads); "
            "add the folder that it is in to PATH",
        )
    said = run_command([str(path), "--help"], limit_s=_HELP_LIMIT_S)
    options = frozenset(re.findall(r"--[a-z][a-z-]+", said.output))
    if "--tool" not in options:
        raise MachineError(f"{path} does not run: {said.last_line or 'it says nothing'}", "reinstall the CUDA toolkit")
    return Sanitizer(path, options)
