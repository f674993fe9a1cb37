"""Judges from a stored run whether a kernel's numbers are within the contest's tolerance."""

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
_ROUNDED = 2.0**-8  # largest relative error of rounding the oracle's value to bf16


def judge_tolerance(
    info: RunInfo, label: str, rows: Sequence[Measurement], scenario: str
) -> tuple[Tolerance, Workload | None]:
    """Judges by what is certain: the stored errors, or the elements that our gates refused.

    `rows` are the kernel's cases at the contest's workloads; `scenario` is the op's first kind of inputs, which the
    contest's inputs resemble. Returns the result, and the first workload at which it fails, or None.
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
    """Whether the worst element of a gate is outside the contest's tolerance, however the oracle's value is rounded."""
    wrong = gate.get("wrong")
    of_output = gate["status"] == Status.WRONG_NUMBERS  # the gate may also be of a changed input
    if not of_output or gate["scenario"] != scenario or not wrong or wrong["got"] is None or wrong["expected"] is None:
        return False
    got, expected = float(wrong["got"]), float(wrong["expected"])
    if not math.isfinite(got):
        return True
    slack = _ROUNDED * abs(expected)
    return abs(got - expected) - slack > CONTEST_TOLERANCE * max(1.0, abs(expected) + slack)
