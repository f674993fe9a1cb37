"""Kernels of an op at workloads in interpreters: in one process of its own, and without a build.

Run with TRITON_INTERPRET=1 as a program it is that process, which prints a JSON line for each. Its arguments are the
op, a folder of more kernels, and then triples of a kernel's label, a workload's, `M=37 K=256 L=3`, and its inputs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from changed_kernels import write_changed
from deep import cases_to_run

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.model.case import Case
from gdnbench.model.status import Status
from gdnbench.workers.task import Phase, Task

REPOSITORY = Path(__file__).resolve().parents[1]
Told = tuple[str, str]
"""A status and the reason."""
ALL, FIRST, UNTIL_WRONG = "all", "first", "until wrong"
"""On which kinds of inputs: the last are tried one after the other until one has another status than `ok`."""


@dataclass(frozen=True)
class Tried:
    """What became of kernels in interpreters: a status and the reason.

    Attributes:
        kernels: by the labels of kernel and workload.
        mistakes: of copies with a mistake in each, by the mistake.
    """

    kernels: dict[tuple[str, str], Told]
    mistakes: dict[str, Told]


def try_kernels(
    request: pytest.FixtureRequest,
    op: str,
    workloads: Sequence[str],
    mistakes: Mapping[str, tuple[str, str, str]],
    at: str,
    root: Path,
) -> Tried:
    """Tries what the module's tests ask for: kernels at workloads, and copies of kernels with a mistake in each.

    Args:
        request: of a fixture, in whose module `test_kernels_are_right_where_there_is_no_gpu` has a `kernel` and a
            `workload`, and `test_a_spoiled_kernel_is_refused` a `mistake`.
        op: the op's name.
        workloads: labels; kernels are tried on all inputs at the first.
        mistakes: by what they are: the kernel without its op's name, and the text of its source that another replaces.
        at: the workload at which copies are tried.
        root: an empty folder, for the copies.
    """
    entries = load_catalog(default_roots()[:1]).entries
    tried = [case["mistake"] for case in cases_to_run(request, "test_a_spoiled_kernel_is_refused")]
    names = {mistake: f"{op}-spoiled-{number}" for number, mistake in enumerate(tried)}
    for mistake, name in names.items():
        kernel, right, wrong = mistakes[mistake]
        write_changed(entries[f"{op}-{kernel}"], name, (right, wrong), root)
    cases = cases_to_run(request, "test_kernels_are_right_where_there_is_no_gpu")
    pairs = {(case["kernel"], case["workload"]): ALL if case["workload"] == workloads[0] else FIRST for case in cases}
    found = statuses(op, pairs | {(name, at): UNTIL_WRONG for name in names.values()}, root)
    return Tried({pair: found[pair] for pair in pairs}, {mistake: found[name, at] for mistake, name in names.items()})


def statuses(op: str, pairs: Mapping[tuple[str, str], str], more: Path) -> dict[tuple[str, str], Told]:
    """What becomes of each pair of labels in interpreters, without a build for a GPU: its status and the reason.

    Args:
        op: the op's name.
        pairs: a kernel's label and a workload's, with the inputs on which they are tried.
        more: a folder of kernels beside the bundled ones; it may be empty.
    """
    done = subprocess.run(
        [sys.executable, __file__, op, str(more), *(each for pair, on in pairs.items() for each in (*pair, on))],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(pairs)
    return {pair: (status, reason) for pair, (status, reason) in zip(pairs, lines, strict=True)}


class _Nobody:
    """Hears of no step."""

    def send(self, event: object) -> None:
        pass


def _main(op: str, more: str, *words: str) -> None:
    from gdnbench.verify.interpret import _Interpretation
    from gdnbench.verify.rotation import Workspaces

    roots = (default_roots()[0], Path(more))
    catalog = load_catalog(roots)
    declared = catalog.ops[op]
    for label, at, on in zip(words[::3], words[1::3], words[2::3], strict=True):
        entry, variant = find_variant(catalog, op, label)
        workload = declared.checked(declared.workloads.read(at))
        case = Case(entry.at(variant, workload), workload)
        task = Task(Phase.INTERPRET, "cpu", tuple(map(str, roots)), op, (case,), seed=3, step_limit_s=60.0)
        workspaces = Workspaces(task)
        kinds = workspaces.kinds(workload)
        for scenarios in {ALL: [kinds], FIRST: [kinds[:1]], UNTIL_WRONG: [(kind,) for kind in kinds]}[on]:
            examined = _Interpretation(task, _Nobody(), workspaces, case).conduct(scenarios)
            if examined.status is not Status.OK:
                break
        print(json.dumps([examined.status, examined.reason]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
