"""The origin of a command that runs for another machine.

A job's worker puts it into the environment of the command, whose child processes inherit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

VARIABLE = "GDNBENCH_ASKED"


@dataclass(frozen=True)
class CommandOrigin:
    """Where and how a command was requested; folders and files have the origin's names.

    `target` is a name in `gdnbench.toml`. `roots` are the folders of kernels that came with the job; they replace all
    others. `git` is the state of the origin's checkout of the bundled kernels, as by `git_state`. `inputs` names
    captured inputs, or is empty.
    """

    target: str = ""
    roots: tuple[str, ...] = ()
    git: Mapping[str, str | bool | None] = field(default_factory=dict)
    results: str = "results"
    profiles: str = "profiles"
    inputs: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that hold these values, for `asked`."""
        return {VARIABLE: json.dumps(asdict(self))}


def command_origin() -> CommandOrigin | None:
    """Returns the origin of this command, or None if it is this machine."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    fields = json.loads(text)
    return CommandOrigin(**{**fields, "roots": tuple(fields["roots"])})
