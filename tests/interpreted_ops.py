"""Kernels at workloads in interpreters: in one process of their own, and without a build.

As a program it is that process, which prints a JSON line for each. Its arguments are a folder of more kernels, and then
an op, a kernel's label, a workload's, `M=37 K=256 L=3`, and its inputs for each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from forked_workers import interpreted

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.model.case import Case
from gdnbench.model.status import Status
from gdnbench.workers.task import Phase, Task

Tried = tuple[str, str, str]
"""An op, and the labels of a kernel and a workload."""
ALL, FIRST, UNTIL_WRONG = "all", "first", "until wrong"
"""On which kinds of inputs: the last are tried one after the other until one has another status than `ok`."""


def statuses(tried: Mapping[Tried, str], more: Path) -> dict[Tried, tuple[str, str]]:
    """What becomes of each in interpreters, without a build for a GPU: its status and the reason.

    Args:
        tried: what is, with the inputs on which it is.
        more: a folder of kernels beside the bundled ones; it may be empty.
    """
    lines = interpreted(__name__, str(more), *(word for one, on in tried.items() for word in (*one, on)))
    return {one: (status, reason) for one, (status, reason) in zip(tried, lines, strict=True)}


class _Nobody:
    """Hears of no step."""

    def send(self, event: object) -> None:
        pass


def _main(more: str, *words: str) -> None:
    from gdnbench.verify.interpret import _Interpretation
    from gdnbench.verify.pairs import InvariancePairs
    from gdnbench.verify.rotation import Workspaces

    roots = (default_roots()[0], Path(more))
    catalog = load_catalog(roots)
    for op, label, at, on in zip(*(words[place::4] for place in range(4)), strict=True):
        declared = catalog.ops[op]
        entry, variant = find_variant(catalog, op, label)
        workload = declared.checked(declared.workloads.read(at))
        case = Case(entry.at(variant, workload), workload)
        task = Task(Phase.INTERPRET, "cpu", tuple(map(str, roots)), op, (case,), seed=3, step_limit_s=60.0)
        workspaces = Workspaces(task)
        kinds = workspaces.kinds(workload)
        for scenarios in {ALL: [kinds], FIRST: [kinds[:1]], UNTIL_WRONG: [(kind,) for kind in kinds]}[on]:
            pairs = InvariancePairs(workspaces, "interpreter")
            examined = _Interpretation(task, _Nobody(), workspaces, pairs, case).conduct(scenarios)
            if examined.status is not Status.OK:
                break
        print(json.dumps([examined.status, examined.reason]))


if __name__ == "__main__":
    _main(*sys.argv[1:-1])
