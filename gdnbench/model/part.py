"""One of several parts of a run's workloads, each measured by itself, perhaps on another machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from gdnbench.errors import UsageError
from gdnbench.wording import plural

T = TypeVar("T")
_WRITTEN = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True)
class Part:
    """Part `number`, from 1, of `of`; a part has all cases of a workload, for they are compared with each other."""

    number: int
    of: int

    def take(self, workloads: Sequence[T]) -> tuple[T, ...]:
        """The part's workloads, assigned round robin, so that each part has small and large ones.

        UsageError is raised if the part has no workload.
        """
        if self.number > len(workloads):
            there = plural(len(workloads), "workload")
            raise UsageError(f"--part {self}: there is nothing left for it of {there}", "leave it out")
        return tuple(workloads[self.number - 1 :: self.of])

    @property
    def label(self) -> str:
        """The end of the part's run name: `part2of4`."""
        return f"part{self.number}of{self.of}"

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def parse_part(text: str) -> Part | None:
    """Returns the part of `--part 2/4`, or None if the text is empty; UsageError for anything else."""
    if not text:
        return None
    found = _WRITTEN.fullmatch(text)
    part = Part(int(found[1]), int(found[2])) if found else None
    if part is None or not 1 <= part.number <= part.of:
        raise UsageError(f"--part {text}: there is no such part", "--part 2/4 is the second of four")
    return part
