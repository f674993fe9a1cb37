"""What the parent asks a worker to measure, and what it answers; imports nothing heavy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

A = "A"
"""The kernel that all others of its workload are compared with."""
SEPARATOR = "|"


@dataclass(frozen=True)
class WorkloadTask:
    """One workload.

    Attributes:
        label: as lines name it.
        sizes: of every axis.
        kernels: the planted kernel's params by the name that answers give it; `A` is among them.
    """

    label: str
    sizes: dict[str, Any]
    kernels: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Task:
    """One trial.

    Attributes:
        roots: the catalog's folders.
        seed: of inputs and of every order.
        workloads: what to measure.
        peers: whose functions to call.
        record: where the answer goes.
    """

    roots: tuple[str, ...]
    seed: int
    workloads: tuple[WorkloadTask, ...]
    peers: tuple[str, ...]
    record: str

    def write(self, path: Path) -> None:
        """Writes the task for a worker."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Task:
        """Reads a task."""
        document = json.loads(path.read_text(encoding="utf-8"))
        workloads = tuple(WorkloadTask(**each) for each in document.pop("workloads"))
        return cls(
            roots=tuple(document["roots"]),
            seed=document["seed"],
            workloads=workloads,
            peers=tuple(document["peers"]),
            record=document["record"],
        )


@dataclass(frozen=True)
class Answer:
    """What a function said in a trial.

    Attributes:
        peer: whose it is.
        seconds: that its calls took, fresh tensors included.
        times_us: by workload and kernel.
        error: why times are missing.
    """

    peer: str
    seconds: float
    times_us: dict[str, dict[str, float]]
    error: str = ""

    def append(self, path: Path) -> None:
        """Appends it to the worker's record as a line of JSON."""
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self)) + "\n")


def read_answers(path: Path) -> dict[str, Answer]:
    """The answers by peer; a line that a dying worker did not finish is passed over."""
    answers = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            answer = Answer(**json.loads(line))
        except (TypeError, ValueError):
            continue
        answers[answer.peer] = answer
    return answers
