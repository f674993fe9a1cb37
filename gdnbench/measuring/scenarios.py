"""Chooses the scenarios in which a run's preflight verifies each case, since a suite may have a hundred workloads.

An oracle in float64 takes thousands of times as long as the kernel. A run of few workloads verifies each in every
scenario of the op. A run of more verifies each in the scenario that is timed and in one of the others, in turn, so that
each kernel still meets every scenario, at several workloads. `gdnbench verify` leaves none out.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.model.case import Case
from gdnbench.model.op import Op

FEW_WORKLOADS = 8
"""Most workloads that are each verified in all scenarios. With more, four others come up at two workloads or more."""


def scenarios_to_verify(op: Op, cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
    """The scenarios in which each case is verified, by case id; empty if all are verified in all.

    A workload that is timed in several profiles meets all its scenarios in one of them, and in the others only the
    timed one. `cases` are all of the run, so that scenarios do not depend on which cases are left to do.
    """
    workloads = list(dict.fromkeys(case.workload for case in cases))
    sizes = list(dict.fromkeys(workload.at("") for workload in workloads))
    kinds = {workload: op.inputs_to_verify(workload) for workload in workloads}
    if len(sizes) > FEW_WORKLOADS:
        for workload in workloads:
            timed, *others = kinds[workload]
            if others:
                kinds[workload] = (timed, others[sizes.index(workload.at("")) % len(others)])
    elif len(sizes) == len(workloads):
        return {}
    first = {workload.at(""): workload for workload in reversed(workloads)}
    again = {workload for workload in workloads if workload != first[workload.at("")]}
    return {case.id: kinds[case.workload][: 1 if case.workload in again else None] for case in cases}
