"""What a profiler's worker is to do, as a file that it reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gdnbench.model import Case


class Errand(StrEnum):
    """The kinds of work."""

    LAUNCH = "launch"  # launch inside NVTX ranges, for a profiler that watches from outside
    PHASES = "phases"  # launch a CUDA kernel that stamps its phases, and store the stamps
    PROTON = "proton"  # launch a Triton kernel that Proton instruments, and store its trace


@dataclass(frozen=True)
class Assignment:
    """One worker's work.

    Attributes:
        errand: the kind of work.
        roots: the catalog's folders.
        op: the op's name.
        case: the kernel, its params and the shape.
        seed: of the inputs.
        launches: how often to launch what is profiled.
        result: path where the worker leaves what it has to tell, where the errand has a result of its own.
        source: hash of the kernel's sources, which the profile records.
    """

    errand: Errand
    roots: tuple[str, ...]
    op: str
    case: Case
    seed: int
    launches: int
    result: str = ""
    source: str = ""

    def write(self, path: Path) -> None:
        """Writes the assignment for a worker to read."""
        path.write_text(json.dumps({**vars(self), "case": self.case.to_dict()}, indent=1))

    @classmethod
    def read(cls, path: Path) -> Assignment:
        """Reads an assignment."""
        document = json.loads(path.read_text())
        document["errand"] = Errand(document["errand"])
        document["roots"] = tuple(document["roots"])
        document["case"] = Case.from_dict(document["case"])
        return cls(**document)


def worker_command(assignment: Path) -> Sequence[str]:
    """The command line of a worker: Python itself, for a profiler follows no launcher's children."""
    import sys

    return (sys.executable, "-m", "gdnbench.profilers.worker", str(assignment))
