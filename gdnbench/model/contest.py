"""What the FlashInfer contest asks of a kernel: its tolerance, its suite, its baseline."""

from __future__ import annotations

CONTEST_TOLERANCE = 1e-2
"""Absolute and relative. An element is wrong where both of its errors are larger; of GDN's outputs none may be."""

CONTEST_SUITE = "contest"
"""What an op calls the contest's workloads; a weight is how many lines of the contest's data set have that workload."""


def contest_baseline(op: str) -> str:
    """The kernel that the contest measures speedups over, FlashInfer's, by the name that it has here."""
    return f"{op}-flashinfer"
