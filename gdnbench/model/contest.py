"""The FlashInfer contest's requirements of a kernel: its tolerance, its suite, its baseline."""

from __future__ import annotations

CONTEST_TOLERANCE = 1e-2
"""Absolute and relative error; an element is wrong where both are larger, and none of GDN's outputs may have one."""

CONTEST_SUITE = "contest"
"""The suite of contest workloads; a weight counts the lines of the contest's data set with the workload."""


def contest_baseline(op: str) -> str:
    """The name of the FlashInfer kernel over which the contest measures speedups."""
    return f"{op}-flashinfer"
