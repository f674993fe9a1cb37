"""References of bundled ops, as they are and with a mistake planted in their text, held against the op's gates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from unittest import mock

import torch
from bundled import CATALOG

from gdnbench.launch import Workspace, load_numerics
from gdnbench.model.workload import Workload
from gdnbench.verify.check import Oracle, check_outputs, consult_oracle, launch_once

Changes = Mapping[str, str]
"""Texts of a source, and what stands in their place, one after the other."""
NOTHING: Changes = MappingProxyType({})


def planted(source: Path, changes: Changes) -> ModuleType:
    """A kernel's file as a module, with texts replaced in it and in the files that it loads; each is in one of them."""
    missing = set(changes)

    def load(path: Path) -> ModuleType:
        text, module = path.read_text(), ModuleType(path.stem)
        for right, wrong in changes.items():
            missing.difference_update([right] if right in text else [])
            text = text.replace(right, wrong)
        module.__file__ = str(path)
        exec(compile(text, path, "exec"), vars(module))
        return module

    with mock.patch("gdnbench.launch.load_file", load):
        module = load(source)
    assert not missing
    return module


def drawn(op: str, scenario: str, seed: int = 1, **sizes: int) -> tuple[Workspace, Oracle]:
    """The inputs of an op at these sizes, and what its outputs should be."""
    return _drawn(op, scenario, seed, CATALOG.ops[op].workload(sizes))


@lru_cache(maxsize=24)  # of megabytes each
def _drawn(op: str, scenario: str, seed: int, workload: Workload) -> tuple[Workspace, Oracle]:
    numerics = load_numerics(CATALOG.ops[op], CATALOG.op_folders[op])
    made = Workspace.make(CATALOG.ops[op], numerics, workload, seed=seed, device="cpu", scenario=scenario)
    return made, consult_oracle(made, numerics)


def errors(workspace: Workspace, expected: Oracle, outputs: Sequence[torch.Tensor]) -> dict[str, float]:
    """Each output's largest error, as a share of what its gate allows; infinite if the gate allows none."""
    found = check_outputs(workspace.op, outputs, expected, "")[1:]
    shares = (gate.worst / gate.limit if gate.limit else math.inf * gate.worst if gate.worst else 0.0 for gate in found)
    return {gate.tensor: share for gate, share in zip(workspace.op.gates, shares, strict=True)}


def worst(op: str, scenario: str, changes: Changes = NOTHING, **sizes: int) -> float:
    """The largest of the errors of an op's reference, with texts replaced."""
    (workspace, expected), entry = drawn(op, scenario, **sizes), CATALOG.entries[f"{op}-reference"]
    run = planted(entry.source, changes).bind(workspace.namespace, workspace.workload, {})
    return max(errors(workspace, expected, launch_once(run, workspace, lambda: None, entry.kernel.in_place)).values())


def is_refused(op: str, changes: Changes, **sizes: int) -> bool:
    """Whether the op's reference, with texts replaced, fails a gate in some scenario."""
    return any(worst(op, scenario, changes, **sizes) > 1 for scenario in CATALOG.ops[op].scenarios)
