"""Kernels of other libraries, loaded with functions of our making in place of the library's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import triton

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.launch import load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.verify.check import Oracle, consult_oracle, verify_launcher

Library = Mapping[str, Mapping[str, Any]]
"""By module, what it has by name."""


def load_as_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_with(monkeypatch: pytest.MonkeyPatch, source: Path, library: Library) -> ModuleType:
    """A kernel's own file as a module, with a library of our making in place of the real one."""
    for path, functions in library.items():
        parts = path.split(".")
        for package in (".".join(parts[:count]) for count in range(1, len(parts) + 1)):
            if not hasattr(sys.modules.get(package), "is_of_our_making"):
                made = ModuleType(package)
                made.is_of_our_making = True
                monkeypatch.setitem(sys.modules, package, made)
        vars(sys.modules[path]).update(functions)
    return load_as_module(source)


def failures(run: Any, workspace: Workspace, expected: Oracle, scenario: str, in_place: Mapping[str, str]) -> list[str]:
    """Why a kernel that is launched twice, so that what updates in place starts again, fails its gates."""
    gates = [
        gate for _ in range(2) for gate in verify_launcher(run, workspace, expected, scenario, lambda: None, in_place)
    ]
    return [gate.reason for gate in gates if not gate.passed]


def failures_with(
    monkeypatch: pytest.MonkeyPatch, entry: CatalogEntry, library: Library, scenario: str, axes: Mapping[str, Any]
) -> list[str]:
    """Why a kernel that is loaded with a library of our making fails its op's gates."""
    op, numerics = entry.op, load_numerics(entry.op, entry.op_folder)
    shape = op.workload(axes)
    workspace = Workspace.make(op.at(shape.axes), numerics, shape, seed=2, device="cpu", scenario=scenario)
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # of launches around the library's
    # Triton's own function is one to compile where Triton was imported before, without that variable.
    monkeypatch.setattr(triton.language, "zeros", lambda shape, dtype: triton.language.full(shape, 0, dtype))
    run = load_with(monkeypatch, entry.source, library).bind(workspace.namespace, shape, entry.default.params)
    return failures(run, workspace, consult_oracle(workspace, numerics), scenario, entry.kernel.in_place)
