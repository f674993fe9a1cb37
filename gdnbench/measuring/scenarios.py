"""In which scenarios the preflight of a run verifies each case: a suite may have a hundred workloads.

An oracle in float64 takes longer than the kernel by a factor of thousands. A run of few workloads verifies each of them
in every scenario of the op. One of more verifies each in the scenario that is timed and in one of the others, in turn:
each kernel still meets every scenario, at several workloads. `gdnbench verify` leaves none out.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.model.case import Case

FEW_WORKLOADS = 8
"""So many workloads are verified in all scenarios each. With more, four others come up at two workloads or more."""


def scenarios_to_verify(scenarios: Sequence[str], cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
    """The scenarios of each case, by its id; empty where all are verified in all.

    Args:
        scenarios: of the op; the first is what is timed.
        cases: all of the run, so that what one is verified in does not depend on which of them are left to do.
    """
    timed, *others = scenarios
    workloads = list(dict.fromkeys(case.workload for case in cases))
    if len(workloads) <= FEW_WORKLOADS or not others:
        return {}
    turn = {workload: others[place % len(others)] for place, workload in enumerate(workloads)}
    return {case.id: (timed, turn[case.workload]) for case in cases}
