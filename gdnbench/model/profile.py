"""Profiles: named distributions of an op's inputs on which a kernel's time or numbers may depend."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdnbench.errors import DeclarationError
from gdnbench.model.name import check_name

DEFAULT_INPUTS = "typical"
"""The name of the first profile in runs stored before ops had profiles; it is still accepted."""
CAPTURED = "file:"
"""The prefix of the profile of captured inputs; the name of a file and a part of its hash follow."""

_LONGEST_STEM = 40
_HASH_DIGITS = 8


def captured_profile(stem: str, sha256: str) -> str:
    """The profile of the inputs in a file, `file:layer-3-1f0c2d3e`.

    `stem` is the file's name without its ending, in which characters that no workload's name may have become hyphens.
    `sha256` is the hash of its content, in hex, which tells files of one name apart.
    """
    return f"{CAPTURED}{re.sub(r'[^A-Za-z0-9.]+', '-', stem)[:_LONGEST_STEM]}-{sha256[:_HASH_DIGITS]}"


def is_captured(profile: str) -> bool:
    """Whether a profile is that of captured inputs, which no op declares."""
    return profile.startswith(CAPTURED)


@dataclass(frozen=True)
class Profile:
    """A named distribution of inputs, which the op's `make_inputs` draws from by that name; `doc` is a line on it.

    A scenario tests numbers; a profile is also timed, and is part of the identity of what is measured. Each run
    compares the `extreme` profiles, between which the time of a kernel that depends on its inputs differs most.
    DeclarationError is raised for a name that no option or file can hold.
    """

    name: str
    doc: str
    extreme: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        if "_" in self.name or "/" in self.name:
            raise DeclarationError(f"the profile {self.name!r}: a name is made of letters, digits and hyphens")
