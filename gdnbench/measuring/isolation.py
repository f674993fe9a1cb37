"""Which cases of a run are measured in one process: a kernel's Python must not be able to change another's figure.

A kernel that is reached through Python runs code of its own in the process that times it, and nothing there can be
trusted to be as it was. Compiled kernels are therefore timed where no such code has run. Honest by definition are the
op and the baselines that its declaration names; they, the control and the floors are timed in every group, so that
each kernel has its baseline and its bounds in rounds of its own process.

All kernels that are reached through Python share a group: each one's own would cost a worker's start and the
baseline's rounds again for every process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdnbench.catalog.entry import Entry
from gdnbench.model.case import Case
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.status import Role

_BRIDGE = {Role.BASELINE, Role.CONTROL, Role.FLOOR}


def runs_own_python(entry: Entry) -> bool:
    """Whether a kernel runs Python of its own where it is timed, for which its op's declaration does not vouch."""
    return isinstance(entry.kernel, TorchKernel) and entry.kernel.name not in entry.op.baselines


def is_apart(case: Case, entries: Mapping[str, Entry]) -> bool:
    """Whether a case is timed apart from those that are compiled, where there are such."""
    return case.role not in _BRIDGE and runs_own_python(entries[case.variant.kernel])


def isolated_groups(cases: Sequence[Case], entries: Mapping[str, Entry]) -> tuple[tuple[Case, ...], ...]:
    """The cases that are measured together: one group, or what is compiled first and then what is Python.

    Args:
        cases: of workloads that are measured together.
        entries: the kernels, by name.
    """
    python = {case.id for case in cases if case.role not in _BRIDGE and runs_own_python(entries[case.variant.kernel])}
    compiled = {case.id for case in cases if case.role not in _BRIDGE} - python
    if not python or not compiled:
        return (tuple(cases),) if cases else ()
    return tuple(tuple(case for case in cases if case.id not in others) for others in (python, compiled))


def trusted_first(cases: Sequence[Case], entries: Mapping[str, Entry]) -> tuple[tuple[Case, ...], ...]:
    """The cases in the order in which they are verified: in a process of their own those that run Python of theirs."""
    own = {case.id for case in cases if runs_own_python(entries[case.variant.kernel])}
    parts = ([case for case in cases if (case.id in own) is is_own] for is_own in (False, True))
    return tuple(tuple(part) for part in parts if part)
