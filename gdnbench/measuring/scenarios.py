"""In which scenarios the preflight of a run verifies each case: a suite may have a hundred workloads.

An oracle in float64 takes longer than the kernel by a factor of thousands. A run of few workloads verifies each of them
in every scenario of the op. One of more verifies each in the scenario that is timed and in one of the others, in turn:
each kernel still meets every scenario, at several workloads. `gdnbench verify` leaves none out.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.model.case import Case
from gdnbench.model.op import Op

FEW_WORKLOADS = 8
"""So many workloads are verified in all scenarios each. With more, four others come up at two workloads or more."""


def scenarios_to_verify(op: Op, cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
    """The kinds of inputs on which each case is verified, by its id; empty where all are verified on all.

    A workload that is timed in several profiles meets the scenarios in one of them: what is timed is another kind for
    each, and nothing else differs.

    Args:
        op: the op.
        cases: all of the run, so that what one is verified in does not depend on which of them are left to do.
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
