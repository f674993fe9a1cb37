"""Profiles: named distributions of an op's inputs on which a kernel's time or numbers may depend."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdnbench.errors import DeclarationError
from gdnbench.model.name import check_name

DEFAULT_INPUTS = "typical"
"""What runs that were stored before ops had profiles call the first profile, and what still names it."""
CAPTURED = "file:"
"""What the profile of captured inputs begins with; the name of a file and a part of its hash follow."""

_LONGEST_STEM = 40
_HASH_DIGITS = 8


def captured_profile(stem: str, sha256: str) -> str:
    """The profile of the inputs that a file holds: `file:layer-3-1f0c2d3e`.

    Args:
        stem: the file's name, without its ending; characters that no name of a workload may have become hyphens.
        sha256: of its content, in hex: files of one name are told apart.
    """
    return f"{CAPTURED}{re.sub(r'[^A-Za-z0-9.]+', '-', stem)[:_LONGEST_STEM]}-{sha256[:_HASH_DIGITS]}"


def is_captured(profile: str) -> bool:
    """Whether a profile is that of captured inputs, which no op declares."""
    return profile.startswith(CAPTURED)


@dataclass(frozen=True)
class Profile:
    """A named distribution of inputs; the op's `make_inputs` draws from it where it is given the name.

    A scenario tests numbers; a profile is also timed, and stands in the identity of what is measured.

    Attributes:
        name: `mixed-heads`.
        doc: what is drawn, in a line.
        extreme: whether a kernel's time, if it depends on the inputs, differs most between this one and the others that
            say so: each run tries them.

    Raises:
        DeclarationError: for a name that no option or file could hold.
    """

    name: str
    doc: str
    extreme: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        if "_" in self.name or "/" in self.name:
            raise DeclarationError(f"the profile {self.name!r}: a name is made of letters, digits and hyphens")
