"""Whether a stored run says that a kernel's numbers are within the contest's tolerance, or outside, or neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from gdnbench.model.contest import CONTEST_TOLERANCE
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.store.info import RunInfo
from gdnbench.store.schema import GateDocument

Tolerance = Literal["pass", "fail", "unknown"]
_ROUNDED = 2.0**-8  # what rounding the oracle's value to bf16 may move it by, relative to it


def judge_tolerance(
    info: RunInfo, label: str, rows: Sequence[Measurement], scenario: str
) -> tuple[Tolerance, Workload | None]:
    """What a run's data say for certain: the errors that it kept, or the elements that our gates refused.

    Args:
        info: the run.
        label: the kernel.
        rows: its cases at the contest's workloads.
        scenario: the op's first kind of inputs, which the contest's are like.

    Returns:
        The answer, and the first workload at which it fails, where it does.
    """
    kept = info.contest.get(label)
    failed = set(kept["failed"] if kept else ())
    for row in rows:
        if row.case.id in failed or any(_refutes(gate, scenario) for gate in info.gates.get(row.case.id, ())):
            return "fail", row.case.workload
    if kept and kept["tolerance"] == CONTEST_TOLERANCE and kept["count"] >= max(1, sum(1 for r in rows if r.timing)):
        return "pass", None
    return "unknown", None


def _refutes(gate: GateDocument, scenario: str) -> bool:
    """Whether the element that a gate named as the worst is outside the contest's tolerance, however that rounds."""
    wrong = gate.get("wrong")
    of_output = gate["status"] == Status.WRONG_NUMBERS  # an input that was changed is none
    if not of_output or gate["scenario"] != scenario or not wrong or wrong["got"] is None or wrong["expected"] is None:
        return False
    got, expected = float(wrong["got"]), float(wrong["expected"])
    if not math.isfinite(got):
        return True
    slack = _ROUNDED * abs(expected)
    return abs(got - expected) - slack > CONTEST_TOLERANCE * max(1.0, abs(expected) + slack)
