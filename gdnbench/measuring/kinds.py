"""On which kinds of inputs the preflight of a run verifies each case: a suite may have a hundred workloads.

An oracle in float64 takes longer than the kernel by a factor of thousands. A run of few workloads verifies each of them
on every kind of inputs that the op names. One of more verifies each on the kind that is timed and on one of the others,
in turn: each kernel still meets every kind, at several workloads. `gdnbench verify` leaves none out.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.model.case import Case
from gdnbench.model.op import Op

FEW_WORKLOADS = 8
"""So many workloads are verified on all kinds of inputs each; twice as many as an op has kinds besides the first."""


def kinds_to_verify(op: Op, cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
    """The kinds of inputs of each case, by its id; empty where all are verified on all.

    Args:
        op: whose `scenarios` are the kinds; the first is what is timed.
        cases: all of the run, so that what one is verified on does not depend on which of them are left to do.
    """
    timed, *others = op.scenarios
    workloads = list(dict.fromkeys(case.workload for case in cases))
    if len(workloads) <= FEW_WORKLOADS or not others:
        return {}
    turn = {workload: others[place % len(others)] for place, workload in enumerate(workloads)}
    return {case.id: (timed, turn[case.workload]) for case in cases}
