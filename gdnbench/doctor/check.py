"""One thing the doctor looked at, and versions to compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"  # as it should be, or not needed here
    WARN = "warn"  # something is lost: a kernel, a profiler, or trust in a number
    FAIL = "fail"  # something asked for cannot work


@dataclass(frozen=True)
class Check:
    """What the doctor found about one thing.

    Attributes:
        name: the thing, in a word or two.
        level: how bad it is.
        finding: what was found, in one sentence without a full stop.
        remedy: what to do about it, a command where there is one; empty where nothing is to be done.
        needed_to_measure: whether nothing can be measured while this fails.
    """

    name: str
    level: Level
    finding: str
    remedy: str = ""
    needed_to_measure: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether nothing can be measured because of this."""
        return self.level is Level.FAIL and self.needed_to_measure


def version_numbers(version: str) -> tuple[int, int]:
    """The major and minor number, to compare: `13.0.88` gives (13, 0); (0, 0) where there are none."""
    found = re.match(r"(\d+)(?:\.(\d+))?", version)
    return (int(found.group(1)), int(found.group(2) or 0)) if found else (0, 0)
