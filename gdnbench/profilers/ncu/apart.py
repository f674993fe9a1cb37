"""Reads a report with NVIDIA's module in a process of its own: what is native code may crash, and takes nobody along.

As a process: `python -m gdnbench.profilers.ncu.apart REPORT PROFILES.csv [NCU]`.
"""

from __future__ import annotations

import sys
import tempfile
from enum import IntEnum
from pathlib import Path

from gdnbench.bench.environment import worker_environment
from gdnbench.errors import ReportFormatError
from gdnbench.profilers.files import read_text
from gdnbench.profilers.ncu.nvidia_reader import load_reader, read_with
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.store import WHAT_IS_READ, parse_profiles, write_profiles
from gdnbench.profilers.process import run_command

_LIMIT_S = 120.0  # a report of torch's kernels, 46 MB, takes a few seconds


class _Exit(IntEnum):
    READ = 0
    NO_REPORT = 2
    NO_MODULE = 3


def read_apart(path: Path, ncu: Path | None) -> tuple[Profile, ...] | None:
    """Reads a report; None where NVIDIA's module is not here or did not survive it.

    Args:
        path: the report.
        ncu: where ncu is, which carries the module where the wheel is not installed.

    Raises:
        ReportFormatError: if it is no report.
    """
    with tempfile.TemporaryDirectory(prefix="gdnbench-ncu-") as folder:
        read = Path(folder) / "profiles.csv"
        command = [sys.executable, "-m", __name__, str(path), str(read), *([str(ncu)] if ncu else [])]
        environment = {"PYTHONPATH": worker_environment(None)["PYTHONPATH"]}
        ended = run_command(command, limit_s=_LIMIT_S, environment=environment)
        if ended.returncode == _Exit.NO_REPORT:
            raise ReportFormatError(ended.last_line, WHAT_IS_READ)
        return parse_profiles(read_text(read, WHAT_IS_READ), path) if ended.returncode == _Exit.READ else None


def main(arguments: list[str]) -> int:
    """Reads the report and writes its profiles, as `store.write_profiles` does."""
    report, target, *ncu = map(Path, arguments)
    reader = load_reader(ncu[0] if ncu else None)
    if reader is None:
        return _Exit.NO_MODULE
    try:
        profiles = read_with(reader, report)
    except ReportFormatError as error:
        print(error.message)
        return _Exit.NO_REPORT
    write_profiles(target, profiles)
    return _Exit.READ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
