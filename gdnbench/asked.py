"""What a command knows of the machine where it was asked for, where that is another than the one it runs on.

A job's worker puts it into the environment of the command; the processes that the command starts inherit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

VARIABLE = "GDNBENCH_ASKED"


@dataclass(frozen=True)
class Asked:
    """Where and how a command was asked for.

    Attributes:
        target: the target's name, as `gdnbench.toml` has it.
        roots: the folders of kernels that came with the job; they take the place of all others.
        git: the checkout of the bundled kernels there, as `git_state` describes it.
        results: what the folder of runs is called there.
        profiles: what the folder of profiles is called there.
        inputs: what the file or the folder of captured inputs is called there; empty for none.
    """

    target: str = ""
    roots: tuple[str, ...] = ()
    git: Mapping[str, str | bool | None] = field(default_factory=dict)
    results: str = "results"
    profiles: str = "profiles"
    inputs: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """What `asked` reads, as variables of the environment."""
        return {VARIABLE: json.dumps(asdict(self))}


def asked() -> Asked | None:
    """Where this command was asked for; None where that is this machine."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    fields = json.loads(text)
    return Asked(**{**fields, "roots": tuple(fields["roots"])})
