"""Builds a call's answer, at most 4 KB: exit code and meaning, an error with its hint, and the digest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gdnbench.errors import ExitCode
from gdnbench.process.command import describe_exit

_LONGEST = 1500  # characters of a text
_ERROR = re.compile(r"^error: (?P<message>.*?)(?:^hint:  (?P<hint>.*))?\Z", re.MULTILINE | re.DOTALL)
_FRAME = re.compile("[\u2500-\u257f]+")  # drawn around a message on a wrong option
_WARNING = re.compile(r"^warning: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, negative for a signal, stdout, stderr, and notes beside its progress."""

    code: int
    output: str = ""
    errors: str = ""
    notes: Sequence[str] = field(default=())


def describe(ended: Ended, meanings: Mapping[int, str]) -> dict[str, Any]:
    """Returns the fields of every result; `meanings` are of exit codes where they differ from `ExitCode`."""
    known = {**{code.value: code.meaning for code in ExitCode}, **meanings}
    told: dict[str, Any] = {
        "exit_code": ended.code,
        "meaning": known.get(ended.code) or f"it ended with {describe_exit(ended.code)}",
    }
    found = _ERROR.search(ended.errors)
    if found:
        told["error"] = found["message"].strip()
        if found["hint"]:
            told["hint"] = found["hint"].strip()
    elif ended.code and not ended.output.strip():
        told["error"] = " ".join(_FRAME.sub(" ", ended.errors).split())[-_LONGEST:] or "it printed nothing"
    return told


def warnings_of(ended: Ended) -> list[str]:
    """Returns the command's warnings and notes."""
    return [*_WARNING.findall(ended.errors), *ended.notes]


def is_wrong_request(code: int) -> bool:
    """Whether a call failed by its request or by gdnbench itself; a kernel's failure is an answer."""
    return code in {ExitCode.USAGE, ExitCode.CRASHED} or code < 0
