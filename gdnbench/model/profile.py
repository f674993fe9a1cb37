"""Profiles: named distributions of an op's inputs on which a kernel's time or numbers may depend."""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.errors import DeclarationError
from gdnbench.model.name import check_name

DEFAULT_INPUTS = "typical"
"""What runs that were stored before ops had profiles call the first profile, and what still names it."""


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
