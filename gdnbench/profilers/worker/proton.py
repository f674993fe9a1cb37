"""Records a Triton kernel with Proton: its scopes, and how long it takes with and without their instrumentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from gdnbench.launch import Launcher, load
from gdnbench.model import TritonKernel
from gdnbench.profilers.assignment import Assignment
from gdnbench.profilers.proton.recording import INSTRUMENTED, PLAIN, Recording
from gdnbench.profilers.worker.cold import time_cold
from gdnbench.profilers.worker.instrumented import MODE, Instrumented, instrument
from gdnbench.profilers.worker.kernel_times import record_kernel_times
from gdnbench.profilers.worker.stage import Stage, set_stage

_PLACEMENTS = 8  # of the tensors in memory, which alone move a kernel's time by some per cent
_SAMPLES = 200  # of each arm


def trace_scopes(assignment: Assignment) -> None:
    """Records the kernel, and writes a `Recording` to the assignment's result.

    Raises:
        BuildError: if the kernel does not compile.
    """
    import triton

    result = Path(assignment.result)
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        stage = set_stage(assignment, copies=_PLACEMENTS)
        # Before Proton begins: a build of ours would be instrumented then, and cached as the plain kernel.
        plain = _bind_plain(stage)
        traced = instrument(stage, assignment, result.with_suffix("")) if _is_triton(stage) else None
        arms = {PLAIN: plain, **({INSTRUMENTED: traced.launchers} if traced else {})}
        times_us = time_cold(arms, _SAMPLES, assignment.seed)
        cupti_us, said = record_kernel_times(plain)  # last, for CUPTI slows launches that it watches
    recording = Recording(
        op=assignment.op,
        case=stage.case,
        language=stage.entry.kernel.language,
        gpu=torch.cuda.get_device_name(),
        triton=triton.__version__,
        times_us=times_us,
        cupti_us=cupti_us,
        notes=said,
        source=assignment.source,
    )
    _with_trace(recording, traced, assignment.launches).write(result)


def _is_triton(stage: Stage) -> bool:
    return isinstance(stage.entry.kernel, TritonKernel)


def _bind_plain(stage: Stage) -> Sequence[Launcher]:
    bind = load(stage.entry, stage.case.variant, stage.case.shape)
    launchers = [bind(workspace) for workspace in stage.workspaces]
    for run in launchers:
        run()
    torch.cuda.synchronize()
    return launchers


def _with_trace(recording: Recording, traced: Instrumented | None, launches: int) -> Recording:
    if traced is None:
        return recording
    return replace(
        recording,
        trace=traced.trace.name,
        mode=MODE,
        launches=launches,
        capacity=traced.capacity,
        sm_mhz=traced.sm_mhz,
        notes=(*recording.notes, *traced.notes),
    )
