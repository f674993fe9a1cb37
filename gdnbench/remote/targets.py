"""Targets: the machines that `gdnbench.toml` names, in the user's own settings or in a project's folder.

A target names a host and an interpreter. `--gpu h200` alone picks one of the user's own: a project's file may have come
with the project, and its targets are taken by their names, with `--on`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gdnbench.codec import SchemaError, convert
from gdnbench.errors import GdnbenchError, UnknownNameError, UsageError
from gdnbench.machine.gpus import same_model
from gdnbench.project import CONFIG, read_config
from gdnbench.remote.job import VariableName
from gdnbench.wording import nearest_names

WORKDIR = "~/.cache/gdnbench-jobs"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_FIX = "see docs/remote.md"
HOW_TO_ADD = 'gdnbench.toml names a machine by [targets.lab] with kind = "ssh", host = "HOST", gpus = ["h200"]'
"""How to name a target in `gdnbench.toml`."""

Line = Annotated[str, msgspec.Meta(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
SshName = Annotated[str, msgspec.Meta(min_length=1, max_length=300, pattern=r"^[^-\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*\Z")]
"""A host as `ssh` takes it; one that begins with `-` would be an option of ssh's."""

FolderName = Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^(/|~/)[^:\x00-\x1f\x7f]+\Z")]
"""An absolute folder, or one in the home folder; no colon, which separates folders in a variable."""


class _Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gpus: list[Line] = []
    python: str = ""
    workdir: FolderName = WORKDIR
    environment: dict[VariableName, str] = {}


class SshTarget(_Machine, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="ssh"):
    """A machine that `ssh` reaches, by its name in the user's ssh config."""

    host: SshName


class LocalTarget(_Machine, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="local"):
    """This machine, with an interpreter of its own if it names one."""


Target = SshTarget | LocalTarget
KINDS = ("ssh", "local")


@dataclass(frozen=True)
class NamedTarget:
    """A target by its name in a file."""

    name: str
    target: Target
    file: Path

    @property
    def described(self) -> str:
        """Its kind and host: `ssh gpu1`."""
        return f"ssh {self.ssh_host}" if self.ssh_host else "local"

    @property
    def is_own(self) -> bool:
        """Whether the user's own settings have it, not a project's file."""
        return self.file == user_config()

    @property
    def command_note(self) -> str:
        """What a project's file has run there, to follow the target: who named the target may not know the file."""
        if self.is_own or not self.target.python:
            return ""
        return f": {self.target.python}, as {self.file} says"

    @property
    def ssh_host(self) -> str:
        """The host that ssh is to reach; empty for none."""
        return self.target.host if isinstance(self.target, SshTarget) else ""


def user_config() -> Path:
    """Returns the user's own file."""
    from platformdirs import user_config_path

    return user_config_path("gdnbench", appauthor=False) / CONFIG


def project_config() -> Path:
    """Returns the file of the working folder, or of the nearest folder above that has one; there need not be one."""
    folders = (Path.cwd(), *Path.cwd().parents)
    return next((folder / CONFIG for folder in folders if (folder / CONFIG).is_file()), folders[0] / CONFIG)


def load_targets() -> dict[str, NamedTarget]:
    """Returns every target by name, a project's in place of the user's of that name; raises as `read_targets`."""
    return {**read_targets(user_config()), **read_targets(project_config())}


def read_targets(path: Path) -> dict[str, NamedTarget]:
    """A file's targets, none without a file; UsageError names file, key and what is wrong, and as `read_config`."""
    document = read_config(path)
    if "kernels" in document and path == user_config():
        raise UsageError(f"{path}: kernels: they are a project's", f"move the table to the {CONFIG} of the project")
    tables = document.get("targets", {})
    if not isinstance(tables, dict):
        raise UsageError(f"{path}: targets: expected tables, [targets.NAME]", _FIX)
    return {name: NamedTarget(name, _target(path, name, table), path) for name, table in tables.items()}


def _target(path: Path, name: str, table: Any) -> Target:
    at = f"{path}: targets.{name}"
    if not _NAME.fullmatch(name):
        raise UsageError(f"{at}: a target's name has letters, digits, `_`, `-` and `.`", _FIX)
    if not isinstance(table, dict):
        raise UsageError(f"{at}: expected a table", f"as in [targets.{name}]")
    if table.get("kind") not in KINDS:
        problem = f"there is no kind {table['kind']!r}" if "kind" in table else "it is missing"
        raise UsageError(f"{at}.kind: {problem}", f"kinds are {', '.join(KINDS)}; {_FIX}")
    try:
        return convert(table, Target)  # type: ignore[arg-type]
    except SchemaError as error:
        raise UsageError(f"{at}: {error}", _FIX) from error


def target_named(name: str) -> NamedTarget:
    """Returns the target that `--on` names; raises UnknownNameError if there is none."""
    targets = load_targets()
    if name not in targets:
        known = f"there are {', '.join(targets)}" if targets else "there is none"
        near = nearest_names(name, targets, most=1, cutoff=0.5)
        raise UnknownNameError(
            f"there is no target {name}: {known}", f"did you mean {near[0]}?" if near else HOW_TO_ADD
        )
    return targets[name]


def targets_with(model: str) -> list[NamedTarget]:
    """Returns every target that says it has a GPU of a model."""
    return [each for each in load_targets().values() if any(same_model(model, gpu.lower()) for gpu in each.target.gpus)]


def first_target() -> str:
    """Returns the name of the first target, to be proposed; empty without one, or where a file of them is wrong."""
    with suppress(GdnbenchError):
        return next(iter(load_targets()), "")
    return ""


def format_targets(targets: Iterable[NamedTarget]) -> str:
    """Formats targets: `lab (h200), den (b200)`."""
    return ", ".join(f"{each.name} ({', '.join(each.target.gpus) or 'no GPU named'})" for each in targets)


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8: a word of the command line that is not has surrogates in it."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
