"""ncu itself: where it is."""

from __future__ import annotations

import shutil
from pathlib import Path

from gdnbench.doctor.profilers import find_ncu
from gdnbench.errors import MachineError


def need_ncu(given: Path | None) -> Path:
    """Where ncu is, as given or found.

    Raises:
        MachineError: if it is not there.
    """
    if given is None:
        if found := find_ncu():
            return found
        raise no_ncu("or read a report made elsewhere: gdnbench ncu --import FILE.ncu-rep")
    program = shutil.which(given)
    if program is None:
        raise MachineError(f"--ncu {given}: there is no such program", "give the path of ncu itself")
    return Path(program)


def no_ncu(alternative: str) -> MachineError:
    """What to say where ncu is not there, and what else could be done."""
    return MachineError(
        "ncu is neither on the PATH nor under /usr/local/cuda* and /opt/nvidia",
        f"install it (https://developer.nvidia.com/nsight-compute), or say where it is with --ncu PATH, {alternative}",
    )
