"""Launches a Triton kernel that Proton instruments, and keeps its trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from gdnbench.bench.worker.flush import Flush
from gdnbench.bench.worker.spin import spin
from gdnbench.launch import Launcher
from gdnbench.launch.bind import bind_compiled
from gdnbench.profilers.assignment import Assignment
from gdnbench.profilers.proton.recording import WARM_UPS
from gdnbench.profilers.proton.trace_file import write_trace
from gdnbench.profilers.worker.altered import check_altered
from gdnbench.profilers.worker.clock import measure_sm_mhz
from gdnbench.profilers.worker.jit import Jit
from gdnbench.profilers.worker.stage import Stage

# What Proton's modes cost on an H200, by the shortest scope, two records around one store: 32 cycles by default, 20
# with a 32-bit clock, and 83 where records go to global memory, which at B=8 also took the kernel a second wave.
# `time_shift` only subtracts a constant from what was measured.
MODE = "default:optimizations=clock32"

_PASS_BYTES = 16  # a record of 8 where a scope begins, and one where it ends
_STEADY = 0.02  # relative change of the SM clock during the launches up to which one clock serves for all


@dataclass(frozen=True)
class Instrumented:
    """What came of a kernel that has scopes.

    Attributes:
        trace: the gzipped trace.
        launchers: launch the instrumented kernel, one for each placement; nobody fetches what it records.
        capacity: passes through scopes that a warp can record in a launch.
        sm_mhz: the SM clock before and after the traced launches.
        notes: what qualifies the trace.
    """

    trace: Path
    launchers: Sequence[Launcher]
    capacity: int
    sm_mhz: tuple[float, float]
    notes: tuple[str, ...]


def instrument(stage: Stage, assignment: Assignment, base: Path) -> Instrumented | None:
    """Traces cold launches of a Triton kernel.

    Args:
        stage: the kernel and its tensors.
        assignment: how many launches, besides those that warm up; the trace records what it is of.
        base: path of the trace, without suffixes.

    Returns:
        What was traced; None if the kernel has no scopes.

    Raises:
        BuildError: if the kernel does not compile.
        ProfilerError: if the instrumented kernel's numbers are wrong.
    """
    jit = Jit(stage)
    same = jit.makes_our_code()
    with TemporaryDirectory(prefix="gdnbench-proton-") as folder:
        compiled, sm_mhz = _trace(jit, assignment.launches, Path(folder) / "trace")
        if not compiled.metadata.profile_scratch_size:
            return None
        trace = base.with_name(f"{base.name}.chrome_trace.gz")
        with (Path(folder) / "trace.chrome_trace").open("rb") as written:
            write_trace(written, trace, label=stage.case.label, source=assignment.source)
    launchers = _launchers(jit, compiled, stage)
    check_altered(launchers[0], stage, "instrumented")
    return Instrumented(trace, launchers, capacity_of(compiled.metadata), sm_mhz, _notes(same, *sm_mhz))


def _trace(jit: Jit, launches: int, base: Path) -> tuple[Any, tuple[float, float]]:
    """The instrumented kernel, and the SM clock before and after its launches; Proton writes `base`.chrome_trace."""
    import triton.profiler as proton
    from triton.profiler import language

    language.enable_semantic("triton")  # Proton's default is Gluon alone, which the compiler rearranges less
    flush = Flush()
    proton.start(str(base), data="trace", backend="instrumentation", mode=MODE)
    try:
        compiled = jit.compile()
        spin()
        before = measure_sm_mhz()
        for number in range(WARM_UPS + launches):
            flush()
            jit.launch(number)
            torch.cuda.synchronize()
        after = measure_sm_mhz()
    finally:
        proton.finalize()
    return compiled, (before, after)


def capacity_of(metadata: Any) -> int:
    """Passes through scopes that a warp can record, from the metadata of what Triton compiled.

    A block's records lie behind a header in a power of two of bytes that its warps share evenly.
    """
    buffer = 1 << (int(metadata.profile_scratch_size).bit_length() - 1)
    return int(buffer // metadata.num_warps // _PASS_BYTES)


def _launchers(jit: Jit, compiled: Any, stage: Stage) -> list[Launcher]:
    from triton.runtime._allocation import set_profile_allocator

    nbytes = prod(jit.grid) * compiled.metadata.num_ctas * compiled.metadata.profile_scratch_size
    records = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    set_profile_allocator(lambda _nbytes, _alignment, _stream: records)
    return [bind_compiled(compiled, jit.grid, workspace) for workspace in stage.workspaces]


def _notes(same: bool, before: float, after: float) -> tuple[str, ...]:
    notes = []
    if not same:
        notes.append("Triton's JIT, whose code is traced, makes other code of the kernel than gdnbench's build")
    if abs(after / before - 1) > _STEADY:
        notes.append(f"the SM clock went from {before:.0f} to {after:.0f} MHz during the traced launches")
    return tuple(notes)
