"""Finds files that shadow a module of the same name: Python takes whichever it finds first."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import gdnbench
from gdnbench.doctor.check import Level, MachineCheck
from gdnbench.wording import first_of, plural

_NAME = "modules"


def check_shadows(folder: Path, python_path: Sequence[Path], installed: Sequence[str]) -> MachineCheck:
    """Checks for files in the working folder or on PYTHONPATH named like a module of Python's or an installed one.

    gdnbench and its workers do not import from the working folder, but programs that libraries start there do. All of
    them import from PYTHONPATH; there only Python's own modules count, because it may hold libraries. `installed` lists
    the paths of installed modules.
    """
    on_path = [each for each in python_path if each.resolve() != folder.resolve()]
    here = _shadows(folder, installed)
    there = [path for each in on_path for path in _shadows(each, ())]
    if not here and not there:
        return MachineCheck(_NAME, Level.OK, "none is shadowed in the working folder or on PYTHONPATH")
    is_named = len(on_path) < len(python_path)
    told = []
    if here:
        what = "imported in place of others, for PYTHONPATH names it" if is_named else "gdnbench passes over them"
        told.append(f"{first_of([path.name for path in here])} in the working folder: {what}")
    if there:
        told.append(f"{first_of([str(path) for path in there])} on PYTHONPATH: imported in place of Python's own")
    rename = f"rename {plural(len(here) + len(there), 'file')}: programs that libraries start may import them, too"
    return MachineCheck(_NAME, Level.WARN, "; ".join(told), rename)


def _shadows(folder: Path, installed: Sequence[str]) -> list[Path]:
    """Returns the modules in a folder named like one of Python's own, or like one installed elsewhere."""
    found = []
    for module in pkgutil.iter_modules([str(folder)]):
        own = PathFinder.find_spec(module.name, [str(folder)])
        if own is None or own.origin is None or _is_same(own.origin, str(gdnbench.__file__)):
            continue
        other = PathFinder.find_spec(module.name, list(installed)) if installed else None
        is_installed = other is not None and other.origin is not None and not _is_same(other.origin, own.origin)
        if module.name in sys.stdlib_module_names or is_installed:
            path = Path(own.origin)
            found.append(path.parent if module.ispkg else path)
    return found


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def read_shadows() -> MachineCheck:
    """Runs `check_shadows` on this process's paths."""
    named = [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    known = {os.path.realpath(each) for each in named}
    installed = [each for each in sys.path if os.path.realpath(each) not in known]
    return check_shadows(Path.cwd(), named, [each for each in installed if Path(each).resolve() != Path.cwd()])
