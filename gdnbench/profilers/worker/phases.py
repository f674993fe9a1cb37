"""Launches a CUDA kernel that stamps its phases, cold, and stores what its warps wrote."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gdnbench.bench.worker.flush import Flush
from gdnbench.bench.worker.spin import spin
from gdnbench.binary import build
from gdnbench.launch import Binder, Launcher, load, load_stamped
from gdnbench.model import CudaKernel
from gdnbench.profilers.assignment import Assignment
from gdnbench.profilers.phases.stamps import HEAD, UNWRITTEN, About, Stamps, WordArray
from gdnbench.profilers.worker.altered import check_altered
from gdnbench.profilers.worker.cold import time_cold
from gdnbench.profilers.worker.globals import read_global, write_global
from gdnbench.profilers.worker.stage import Stage, set_stage

PLACEMENTS = 4  # where tensors lie in memory is chance, and moves the time of a launch
WARM_UPS = 5
MOST_RECORDS = 1 << 20  # 44 MB of six phases; fewer launches where more warps are in each
_COST_SAMPLES = 200
_WARP = 32
_UNWRITTEN = np.uint32(UNWRITTEN).view(np.int32).item()  # torch computes little with unsigned words


def stamp_phases(assignment: Assignment) -> None:
    """Verifies the stamped kernel, launches it as often as asked, times it beside the plain one, and stores it all.

    Raises:
        ProfilerError: if the stamped kernel's numbers are wrong.
    """
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        stage = set_stage(assignment, copies=PLACEMENTS)
        bind, code = load_stamped(stage.entry, stage.case.variant, stage.case.shape)
        names = _names(code)
        buffer = torch.empty((_warps(stage), HEAD + len(names)), dtype=torch.int32, device="cuda")
        write_global(code, "gdnbench_phase_records", buffer.data_ptr().to_bytes(8, "little"))
        stamped = _bind_all(bind, stage)
        check_altered(stamped[0], stage, "stamped")
        plain = _bind_all(load(stage.entry, stage.case.variant, stage.case.shape), stage)
        records = _record(stamped, buffer, max(1, min(assignment.launches, MOST_RECORDS // len(buffer))))
        times = time_cold({"plain": plain, "stamped": stamped}, _COST_SAMPLES, assignment.seed)
    about = _about(assignment, stage, names)
    stamps = Stamps(about, records, np.array(times["plain"]), np.array(times["stamped"]))
    stamps.write(Path(assignment.result))


def _names(code: Any) -> tuple[str, ...]:
    """The phases as the source lists them: GDNBENCH_PHASE_NAMES keeps its arguments as text."""
    listed = read_global(code, "gdnbench_phase_names").rstrip(b"\0").decode()
    return tuple(name.strip() for name in listed.split(","))


def _warps(stage: Stage) -> int:
    kernel, shape, params = stage.entry.kernel, stage.case.shape, stage.case.variant.params
    assert isinstance(kernel, CudaKernel)
    return prod(kernel.grid(shape, params)) * -(-kernel.block(shape, params) // _WARP)


def _bind_all(bind: Binder, stage: Stage) -> list[Launcher]:
    """A launcher for each placement, warm."""
    runs = [bind(workspace) for workspace in stage.workspaces]
    for _ in range(WARM_UPS):
        for run in runs:
            run()
    torch.cuda.synchronize()
    return runs


def _record(runs: Sequence[Launcher], buffer: torch.Tensor, launches: int) -> WordArray:
    """The records of each launch; before each the L2 is overwritten, the records of the last one in it included."""
    kept = torch.empty((launches, *buffer.shape), dtype=buffer.dtype, device="cuda")
    flush = Flush()
    spin()
    for launch in range(launches):
        buffer.fill_(_UNWRITTEN)
        flush()
        runs[launch % len(runs)]()
        kept[launch].copy_(buffer)
    torch.cuda.synchronize()
    return kept.cpu().numpy().view(np.uint32)


def _about(assignment: Assignment, stage: Stage, names: tuple[str, ...]) -> About:
    major, minor = torch.cuda.get_device_capability()
    arch, case = f"sm_{major}{minor}", stage.case
    plain, stamped = (build(stage.entry, case.variant, case.shape, arch, stamped=marks) for marks in (False, True))
    return About(
        op=assignment.op,
        label=case.label,
        shape=case.shape,
        gpu=torch.cuda.get_device_name(),
        arch=arch,
        phases=names,
        asked=assignment.launches,
        registers=plain.registers,
        stamped_registers=stamped.registers,
        stamped_spill_bytes=stamped.spill_bytes,
        source=assignment.source,
    )
