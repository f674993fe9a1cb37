"""Launches a kernel inside NVTX ranges, for a profiler that watches from outside."""

from __future__ import annotations

import nvtx
import torch

from gdnbench.launch import Launcher, load
from gdnbench.profilers.assignment import Assignment
from gdnbench.profilers.ranges import DOMAIN, PROFILED, name_of
from gdnbench.profilers.worker.stage import set_stage

WARM_UPS = 5  # compile, load, and settle the allocator before anything is watched


def launch_bare(assignment: Assignment) -> None:
    """Binds the kernel, warms it, and launches it as often as asked, each launch in a range and waited for."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        stage = set_stage(assignment)
        run = load(stage.entry, stage.case.variant, stage.case.shape)(stage.workspace)
        for _ in range(WARM_UPS):
            run()
        torch.cuda.synchronize()
        for _ in range(assignment.launches):
            _launch(run, name_of(assignment.op, stage.case, assignment.source))


def _launch(run: Launcher, name: str) -> None:
    # Two kinds of ranges: the stacked one names the launch on a timeline, and the other one, which needs no knowledge
    # of the stack, is what a profiler filters by.
    with nvtx.annotate(name, domain=DOMAIN):
        profiled = nvtx.start_range(PROFILED, domain=DOMAIN)
        run()
        torch.cuda.synchronize()
        nvtx.end_range(profiled)
