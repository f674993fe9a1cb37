"""Wakes the GPU: an idle one runs at a fraction of its clock, and its first samples are slow."""

from __future__ import annotations

import time

import torch

from gdnbench.bench.worker.flush import Flush

SPIN_S = 0.5  # the SM clock rises from 345 MHz idle to 1980 MHz under load within this time on an H200


def spin() -> None:
    """Keeps the GPU busy until its clock has risen.

    With the load that comes between samples: matrix products draw so much power that the clock falls, to 1650 MHz on an
    H200, and what is launched right after them is measured at that.
    """
    flush = Flush()
    end = time.monotonic() + SPIN_S
    while time.monotonic() < end:
        flush()
        torch.cuda.synchronize()
