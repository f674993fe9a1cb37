"""Decides which cases are timed in one process: a kernel's Python must not be able to change another kernel's time.

A kernel that is called through Python runs its own code in the process that times it, and can change anything there.
Compiled kernels are therefore timed where no such code has run. The op and the baselines named in its declaration are
trusted; baseline, control and floors are timed in every group, so that each kernel has its baseline and its bounds in
rounds of its own process. All kernels called through Python share a group: a group each would cost a worker's start and
the baseline's rounds again for every process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.model.case import Case
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.status import Role

_BRIDGE = {Role.BASELINE, Role.CONTROL, Role.FLOOR}


def runs_own_python(entry: CatalogEntry) -> bool:
    """Whether a kernel runs its own Python where it is timed and its op does not declare it as a baseline."""
    return isinstance(entry.kernel, TorchKernel) and entry.kernel.name not in entry.op.baselines


def is_apart(case: Case, entries: Mapping[str, CatalogEntry]) -> bool:
    """Whether a case is timed in another process than the compiled kernels, if there are any."""
    return case.role not in _BRIDGE and runs_own_python(entries[case.variant.kernel])


def isolated_groups(cases: Sequence[Case], entries: Mapping[str, CatalogEntry]) -> tuple[tuple[Case, ...], ...]:
    """The cases of workloads measured together, as one group, or as two: compiled kernels, then those with Python."""
    python = {case.id for case in cases if case.role not in _BRIDGE and runs_own_python(entries[case.variant.kernel])}
    compiled = {case.id for case in cases if case.role not in _BRIDGE} - python
    if not python or not compiled:
        return (tuple(cases),) if cases else ()
    return tuple(tuple(case for case in cases if case.id not in others) for others in (python, compiled))


def trusted_first(cases: Sequence[Case], entries: Mapping[str, CatalogEntry]) -> tuple[tuple[Case, ...], ...]:
    """The cases in the order of verification: those with their own Python in a second process."""
    own = {case.id for case in cases if runs_own_python(entries[case.variant.kernel])}
    parts = ([case for case in cases if (case.id in own) is is_own] for is_own in (False, True))
    return tuple(tuple(part) for part in parts if part)
