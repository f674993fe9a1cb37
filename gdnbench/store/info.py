"""`run.json`: what a run was, where it ran, and what qualifies it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from gdnbench.errors import RunFormatError

SCHEMA_VERSION = 1
NAME = "run.json"


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """One run.

    Attributes:
        run_id: the run's name.
        timestamp: when it began, UTC, ISO 8601.
        complete: whether every case and round that was asked for is in it.
        command: the command line.
        op: the op.
        gpu: the GPU's short name, `h200`; `cpu` without one.
        label: the user's label.
        baseline: the label of what others are compared with; empty if there is none.
        settings: rounds, samples, seed, margin, confidence and time limit.
        swept: for a sweep, the params that it tries, by kernel.
        cases: every case, as `Case.to_dict` gives it.
        machine: host, GPU, library versions and environment.
        git: commit, branch and dirty flag of the checkout.
        sources: hash of the sources of each kernel, and of each dispatcher's table, by name.
        gates: what the correctness gates found, by case id.
        warnings: what qualifies the whole run.
        schema: version of this format.
    """

    run_id: str
    timestamp: str
    complete: bool
    command: str
    op: str
    gpu: str
    label: str = ""
    baseline: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    swept: dict[str, list[str]] = field(default_factory=dict)
    cases: list[dict[str, Any]] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    git: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    gates: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    schema: int = SCHEMA_VERSION


def write_info(folder: Path, info: RunInfo) -> None:
    """Writes `run.json`, replacing one that is there in a single step."""
    temporary = folder / f"{NAME}.new"
    temporary.write_text(json.dumps(_plain(asdict(info)), indent=2, allow_nan=False, default=str) + "\n")
    temporary.replace(folder / NAME)


def read_info(folder: Path) -> RunInfo:
    """Reads `run.json`.

    Raises:
        RunFormatError: if it is missing, cut off, of another schema version, or lacks a field.
    """
    path = folder / NAME
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", "is this the folder of a gdnbench run?") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA_VERSION:
        found = document.get("schema") if isinstance(document, dict) else None
        message = f"{path} is of schema version {found}; this gdnbench reads {SCHEMA_VERSION}"
        raise RunFormatError(message, "use the gdnbench that wrote it, or measure anew")
    missing = {"rounds", "samples", "margin", "confidence"} - document.get("settings", {}).keys()
    if missing:
        raise RunFormatError(f"{path} lacks the settings {', '.join(sorted(missing))}", "measure anew")
    known = {item.name for item in fields(RunInfo)}
    try:
        return RunInfo(**{name: value for name, value in document.items() if name in known})
    except TypeError as error:
        raise RunFormatError(f"{path} lacks a field: {error}", "measure anew") from error


def _plain(value: Any) -> Any:
    """JSON has no infinity; an infinite error becomes the text `inf`."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
