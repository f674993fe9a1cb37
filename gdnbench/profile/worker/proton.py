"""Records a Triton kernel's scopes with Proton, and its time with and without their instrumentation."""

from __future__ import annotations

import gzip
import shutil
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from gdnbench.codegen.triton import OPTIONS, compile_triton, constants_of, load_function, options_of
from gdnbench.errors import ProfilerError
from gdnbench.launch import Launcher, Workspace, load
from gdnbench.launch.bind import bind_compiled
from gdnbench.model.kernel import TritonKernel
from gdnbench.profile.process import ProfileTask
from gdnbench.profile.recording import INSTRUMENTED, PLAIN, WARM_UPS, Recording
from gdnbench.profile.worker.case import PlacedCase, bind_all, measure_sm_mhz, place_case, time_cold, verify_altered
from gdnbench.workers.cold import L2Flush, raise_clock

# Cost of Proton's modes on an H200, by the shortest scope (two records around one store): 32 cycles by default, 20 with
# a 32-bit clock, and 83 with records in global memory, where the kernel at B=8 also took a second wave.
# `time_shift` only subtracts a constant.
MODE = "default:optimizations=clock32"

_PASS_BYTES = 16  # a record of 8 bytes at a scope's begin, and one at its end
_STEADY = 0.02  # largest relative change of the SM clock during the launches for which one clock serves
_PLACEMENTS = 8  # placement alone changes a kernel's time by some per cent
_SAMPLES = 200  # of each arm


def trace_scopes(task: ProfileTask) -> None:
    """Traces cold launches of a Triton kernel, and writes a `Recording` as the task's result, the trace beside it.

    Raises BuildError if it does not compile; ProfilerError if it has no scopes, or its numbers are wrong when
    instrumented.
    """
    import triton

    result = Path(task.result)
    trace = result.with_suffix(".chrome_trace.gz")
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        placed = place_case(task, copies=_PLACEMENTS)
        # Before Proton starts: a later build would be instrumented, and cached as the plain kernel.
        plain = bind_all(load(placed.entry, placed.case.variant, placed.case.workload), placed)
        jit = Jit(placed)
        same = jit.makes_our_code()
        with TemporaryDirectory(prefix="gdnbench-proton-") as folder:
            compiled, sm_mhz = _launch_traced(jit, task.launches, Path(folder) / "trace")
            if not compiled.metadata.profile_scratch_size:
                raise ProfilerError("it has no scopes: mark its phases by `with trace.scope(...)`, see gdnbench.trace")
            with (Path(folder) / "trace.chrome_trace").open("rb") as written, gzip.open(trace, "wb", 6) as packed:
                shutil.copyfileobj(written, packed)  # Perfetto opens it gzipped: a twentieth of its size
        launchers = _launchers(jit, compiled, placed)
        verify_altered(launchers[0], placed, "instrumented")
        times_us = time_cold({PLAIN: plain, INSTRUMENTED: launchers}, _SAMPLES, task.seed)
    Recording(
        op=task.op,
        case=placed.case,
        gpu=torch.cuda.get_device_name(),
        triton=triton.__version__,
        times_us=times_us,
        trace=trace.name,
        mode=MODE,
        launches=task.launches,
        capacity=capacity_of(compiled.metadata),
        sm_mhz=sm_mhz,
        notes=_notes(same, *sm_mhz),
        source=task.source,
    ).write(result)


def _launch_traced(jit: Jit, launches: int, base: Path) -> tuple[Any, tuple[float, float]]:
    import triton.profiler as proton
    from triton.profiler import language

    language.enable_semantic("triton")  # Proton's default is Gluon only, which the compiler rearranges less
    flush = L2Flush()
    proton.start(str(base), data="trace", backend="instrumentation", mode=MODE)
    try:
        compiled = jit.compile()
        raise_clock()
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
    """Passes that a warp can record: behind a header, warps share a power of two of bytes evenly."""
    buffer = 1 << (int(metadata.profile_scratch_size).bit_length() - 1)
    return int(buffer // metadata.num_warps // _PASS_BYTES)


def _launchers(jit: Jit, compiled: Any, placed: PlacedCase) -> list[Launcher]:
    """Binds the traced kernel at every placement; nothing fetches its records."""
    from triton.runtime._allocation import set_profile_allocator

    nbytes = prod(jit.grid) * compiled.metadata.num_ctas * compiled.metadata.profile_scratch_size
    records = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    set_profile_allocator(lambda _nbytes, _alignment, _stream: records)
    return [bind_compiled(compiled, jit.grid, workspace) for workspace in placed.workspaces]


def _notes(same: bool, before: float, after: float) -> tuple[str, ...]:
    notes = []
    if not same:
        notes.append("Triton's JIT, whose code is traced, makes other code of the kernel than gdnbench's build")
    if abs(after / before - 1) > _STEADY:
        notes.append(f"the SM clock went from {before:.0f} to {after:.0f} MHz during the traced launches")
    return tuple(notes)


class Jit:
    """A placed case's Triton kernel, called as a user of Triton calls it; `grid` is programs per axis.

    A build ahead of time cannot be instrumented: Triton's cache would take it for the plain kernel, and the reverse.
    """

    def __init__(self, placed: PlacedCase) -> None:
        kernel = placed.entry.kernel
        assert isinstance(kernel, TritonKernel)
        params, workload = placed.case.variant.params, placed.case.workload
        self._placed = placed
        self._function = load_function(placed.entry, kernel.launches[0].entry)
        self.grid = kernel.launches[0].grid(workload, params)
        self._options = options_of(kernel.launches[0], kernel.name, params, workload, OPTIONS)
        self._bound = [self._bind(workspace) for workspace in placed.workspaces]

    def compile(self) -> Any:
        """Returns Triton's `CompiledKernel`, instrumented while Proton is active."""
        return self._function.warmup(*self._bound[0], grid=self.grid, **self._options)

    def launch(self, number: int) -> None:
        """Launches the kernel on placement `number`, modulo their number."""
        import triton

        # Kernels that make tensor descriptors need memory for them.
        triton.set_allocator(lambda nbytes, _alignment, _stream: torch.empty(nbytes, dtype=torch.uint8, device="cuda"))
        self._function[self.grid](*self._bound[number % len(self._bound)], **self._options)

    def makes_our_code(self) -> bool:
        """Whether the JIT makes the code of gdnbench's build, which other verbs measure; call before Proton starts."""
        major, minor = torch.cuda.get_device_capability()
        case = self._placed.case
        built = compile_triton(self._placed.entry, case.variant.params, case.workload, f"sm_{major}{minor}")
        return bool(self.compile().asm["cubin"] == built.asm["cubin"])

    def _bind(self, workspace: Workspace) -> list[Any]:
        constants = constants_of(self._placed.case.variant.params, self._placed.case.workload)
        values = {**constants, **workspace.inputs, **workspace.scalars, **workspace.outputs}
        return [values[name] for name in self._function.arg_names]
