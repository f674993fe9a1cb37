"""Loads a function from a kernel's Python source, each time into a fresh module."""

from __future__ import annotations

import importlib.util
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from gdnbench.errors import BuildError
from gdnbench.raised import raised_at


def load_function(source: Path, name: str) -> Any:
    """What a kernel's source calls `name`.

    Raises:
        BuildError: if the source fails to load, with the line that did; or if it defines no such name.
    """
    module_name = f"gdnbench_kernel_{sha256(str(source).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, source)
    if spec is None or spec.loader is None:
        raise BuildError(f"{source} is not a Python file", "see `source` in variant.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickle look a class's module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BuildError(f"{_place(source, error)}: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise BuildError(f"{source} defines no {name}", "see `entry` in variant.py")
    return getattr(module, name)


def _place(source: Path, error: BaseException) -> str:
    """File and line in the source itself, not in what it called."""
    at = raised_at(error, source)
    return f"{source}:{at[1]}" if at else str(source)
