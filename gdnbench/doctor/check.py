"""One check of the doctor, and version numbers to compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding."""

    OK = "ok"  # as it should be, or not needed here
    WARN = "warn"  # something is lost: a kernel, a profiler, or trust in a number
    FAIL = "fail"  # something requested cannot work


@dataclass(frozen=True)
class MachineCheck:
    """A finding of the doctor about one thing.

    `finding` is one sentence without a full stop; `remedy` says what to do, with a command if there is one.
    `needed_to_measure` tells whether nothing can be measured while this fails.
    """

    name: str
    level: Level
    finding: str
    remedy: str = ""
    needed_to_measure: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether this prevents all measurements."""
        return self.level is Level.FAIL and self.needed_to_measure


def version_numbers(version: str) -> tuple[int, int]:
    """Returns the major and minor number: `13.0.88` gives (13, 0), a text without numbers (0, 0)."""
    found = re.match(r"(\d+)(?:\.(\d+))?", version)
    return (int(found.group(1)), int(found.group(2) or 0)) if found else (0, 0)
