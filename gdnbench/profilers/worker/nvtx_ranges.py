"""Launches a kernel inside NVTX ranges, for a profiler that watches from outside."""

from __future__ import annotations

import nvtx
import torch

from gdnbench.launch import Launcher, load
from gdnbench.profilers.process import DOMAIN, PROFILED, ProfileTask, range_name
from gdnbench.profilers.worker.case import place_case

WARM_UPS = 5  # compile, load, and settle the allocator before anything is watched


def launch_in_ranges(task: ProfileTask) -> None:
    """Binds the kernel, warms it, and launches it as often as asked, each launch in a range and waited for."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        placed = place_case(task)
        run = load(placed.entry, placed.case.variant, placed.case.shape)(placed.workspace)
        for _ in range(WARM_UPS):
            run()
        torch.cuda.synchronize()
        for _ in range(task.launches):
            _launch(run, range_name(task.op, placed.case, task.source))


def _launch(run: Launcher, name: str) -> None:
    # Two kinds of ranges: the stacked one names the launch on a timeline, and the other one, which needs no knowledge
    # of the stack, is what a profiler filters by.
    with nvtx.annotate(name, domain=DOMAIN):
        profiled = nvtx.start_range(PROFILED, domain=DOMAIN)
        run()
        torch.cuda.synchronize()
        nvtx.end_range(profiled)
