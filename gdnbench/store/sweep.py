"""`sweep.json`: a sweep's answer, beside the measurements that it was read off."""

from __future__ import annotations

import json
from pathlib import Path

from gdnbench.errors import RunFormatError, ShapeError
from gdnbench.finite import finite
from gdnbench.model import Sweep

SCHEMA_VERSION = 1
NAME = "sweep.json"


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Writes `sweep.json`; an unknown upper end is null, for JSON has no infinity."""
    document = {"schema": SCHEMA_VERSION, **sweep.to_dict()}
    (folder / NAME).write_text(json.dumps(finite(document), indent=1, allow_nan=False) + "\n")


def read_sweep(folder: Path) -> Sweep | None:
    """Reads `sweep.json`; None for a run that is no sweep.

    Raises:
        RunFormatError: if it is cut off, of another schema version, or lacks a field.
    """
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text())
        if document.pop("schema") != SCHEMA_VERSION:
            raise RunFormatError(f"{path} is of another schema version", "use the gdnbench that wrote it")
        return Sweep.from_dict(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ShapeError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", "the sweep is damaged; sweep anew") from error
