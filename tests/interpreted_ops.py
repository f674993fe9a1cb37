"""Kernels of an op at workloads, on all inputs, in interpreters: in one process of its own, and without a build.

Run with TRITON_INTERPRET=1 as a program it is that process, which prints a JSON line for each. Its arguments are the
op, a folder of more kernels, and then pairs of a kernel's label and a workload's, `M=37 K=256 L=3`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from changed_kernels import write_changed

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.model.case import Case
from gdnbench.store.journal import Examined
from gdnbench.workers.task import Phase, Task

REPOSITORY = Path(__file__).resolve().parents[1]
Told = tuple[str, str]
"""A status and the reason."""


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
    op: str,
    kernels: Sequence[str],
    workloads: Sequence[str],
    mistakes: Mapping[str, tuple[str, str, str]],
    at: str,
    root: Path,
) -> Tried:
    """Tries each kernel at each workload, and copies of kernels with a mistake in each.

    Args:
        op: the op's name.
        kernels: their labels.
        workloads: labels, too.
        mistakes: by what they are: the kernel without its op's name, and the text of its source that another replaces.
        at: the workload at which copies are tried.
        root: an empty folder, for the copies.
    """
    entries = load_catalog(default_roots()[:1]).entries
    names = {mistake: f"{op}-spoiled-{number}" for number, mistake in enumerate(mistakes)}
    for mistake, (kernel, right, wrong) in mistakes.items():
        write_changed(entries[f"{op}-{kernel}"], names[mistake], (right, wrong), root)
    pairs = [(kernel, workload) for kernel in kernels for workload in workloads]
    found = statuses(op, [*pairs, *((name, at) for name in names.values())], root)
    return Tried({pair: found[pair] for pair in pairs}, {mistake: found[name, at] for mistake, name in names.items()})


def statuses(op: str, pairs: Sequence[tuple[str, str]], more: Path) -> dict[tuple[str, str], Told]:
    """What becomes of each pair of labels in interpreters, without a build for a GPU: its status and the reason.

    Args:
        op: the op's name.
        pairs: of a kernel's label and a workload's.
        more: a folder of kernels beside the bundled ones; it may be empty.
    """
    done = subprocess.run(
        [sys.executable, __file__, op, str(more), *(each for pair in pairs for each in pair)],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(pairs)
    return {pair: (status, reason) for pair, (status, reason) in zip(pairs, lines, strict=True)}


class _Lines:
    """Prints what is examined, in the order of the cases."""

    def send(self, event: object) -> None:
        if isinstance(event, Examined):
            print(json.dumps([event.status, event.reason]))


def _main(op: str, more: str, *words: str) -> None:
    from gdnbench.verify.interpret import interpret_all

    roots = (default_roots()[0], Path(more))
    catalog = load_catalog(roots)
    declared = catalog.ops[op]
    for label, at in zip(words[::2], words[1::2], strict=True):
        entry, variant = find_variant(catalog, op, label)
        workload = declared.checked(declared.workloads.read(at))
        case = Case(entry.at(variant, workload), workload)
        task = Task(Phase.INTERPRET, "cpu", tuple(map(str, roots)), op, (case,), seed=3, step_limit_s=60.0)
        interpret_all(task, _Lines())


if __name__ == "__main__":
    _main(*sys.argv[1:])
