"""A case on the GPU: inputs at several placements, verification of an altered kernel, the SM clock, and a cold timer.

Like NVBench's cold measurement, the timer overwrites the L2 before each launch, blocks the GPU with a kernel until the
launch and its events are queued, so that no host time is in between, and reads CUDA events. Unlike `gdnbench run` it
has no rounds, no control and no interval: it is for differences of many per cent.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import nvtx
import torch
from cuda.bindings import driver

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.build import Job, build
from gdnbench.errors import ProfilerError
from gdnbench.launch import Binder, Launcher, Workspace, load, load_numerics, load_stamped
from gdnbench.model.case import Case
from gdnbench.model.kernel import CudaKernel, CudaLaunch, TritonKernel, launch_of
from gdnbench.profile.process import DOMAIN, PROFILED, ProfileTask, range_name
from gdnbench.profile.stamps import (
    COUNTED,
    CYCLE_BITS,
    HEAD,
    TOTAL,
    UNWRITTEN,
    Passes,
    StampedKernel,
    Stamps,
    WordArray,
)
from gdnbench.verify.check import Oracle, consult_oracle, verify_launcher
from gdnbench.workers.cold import BlockingKernel, L2Flush, raise_clock

WARM_UPS = 5  # compile, load, and settle the allocator before profiling
_CYCLES = 20_000_000  # 10 ms at 1.98 GHz, so that the 3 µs of a launch are 0.03 %


@dataclass(frozen=True)
class PlacedCase:
    """A case with its tensors on the GPU; `workspaces` has an equal copy for each placement."""

    entry: CatalogEntry
    case: Case
    workspaces: tuple[Workspace, ...]

    @property
    def workspace(self) -> Workspace:
        """The first placement."""
        return self.workspaces[0]

    @cached_property
    def expected(self) -> Oracle:
        """What the oracle says of its inputs."""
        return consult_oracle(self.workspace, load_numerics(self.entry.op, self.entry.op_folder))


def place_case(task: ProfileTask, *, copies: int = 1, device: str = "cuda") -> PlacedCase:
    """Draws inputs of the op's first kind on a device, at `copies` placements."""
    catalog = load_catalog((Path(root) for root in task.roots), only=task.op)
    op = catalog.ops[task.op]
    numerics = load_numerics(op, catalog.op_folders[op.name])
    case = task.case
    kind = op.inputs_to_verify(case.workload)[0]
    first = Workspace.make(op, numerics, case.workload, seed=task.seed, device=device, scenario=kind)
    workspaces = (first, *(first.copy() for _ in range(copies - 1)))
    torch.cuda.synchronize()
    return PlacedCase(catalog.entries[case.variant.kernel], case, workspaces)


def verify_altered(run: Launcher, placed: PlacedCase, altered: str) -> None:
    """Raises ProfilerError if a kernel that a profiler altered (`stamped`, say) computes wrong numbers."""
    entry, workspace = placed.entry, placed.workspace
    scenario, in_place = entry.op.inputs_to_verify(workspace.workload)[0], entry.kernel.in_place
    gates = verify_launcher(run, workspace, placed.expected, scenario, torch.cuda.synchronize, in_place)
    if failed := [gate for gate in gates if not gate.passed]:
        raise ProfilerError(f"the {altered} kernel's numbers are wrong: {failed[0].reason}")


def measure_sm_mhz() -> float:
    """Measures the SM clock in MHz: CUDA events around a kernel that waits for a known number of cycles.

    torch's `_sleep` returns once `clock64()` has advanced by its argument. Call this while the GPU is as busy as during
    the launches to convert: an idle GPU lowers its clock.
    """
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda._sleep(1)  # type: ignore[no-untyped-call]  # loads its code
    begin.record()
    torch.cuda._sleep(_CYCLES)  # type: ignore[no-untyped-call]
    end.record()
    end.synchronize()
    return _CYCLES / (float(begin.elapsed_time(end)) * 1e3)


def time_cold(arms: Mapping[str, Sequence[Launcher]], samples: int, seed: int) -> dict[str, list[float]]:
    """Times `arms`, launchers of placements by name, in shuffled turn; returns `samples` cold times, µs, by name."""
    stream = torch.cuda.current_stream()
    flush, blocking = L2Flush(), BlockingKernel()
    order = random.Random(seed)
    names = list(arms)
    pairs: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in names}
    raise_clock()
    for sample in range(samples):
        order.shuffle(names)
        for name in names:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            run = arms[name][sample % len(arms[name])]
            flush()
            blocking.enqueue()
            begin.record(stream)
            run()
            end.record(stream)
            blocking.release()
            pairs[name].append((begin, end))
        stream.synchronize()
    return {name: [begin.elapsed_time(end) * 1e3 for begin, end in timed] for name, timed in pairs.items()}


def launch_in_ranges(task: ProfileTask) -> None:
    """Binds the kernel, warms it up, and launches it `task.launches` times, each in a range and synchronized."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        placed = place_case(task)
        run = load(placed.entry, placed.case.variant, placed.case.workload)(placed.workspace)
        for _ in range(WARM_UPS):
            run()
        torch.cuda.synchronize()
        for _ in range(task.launches):
            # The push/pop range names the launch; the start/end range, which needs no stack, is the profiler's filter.
            with nvtx.annotate(range_name(task.op, placed.case, task.source), domain=DOMAIN):
                profiled = nvtx.start_range(PROFILED, domain=DOMAIN)
                run()
                torch.cuda.synchronize()
                nvtx.end_range(profiled)


PLACEMENTS = 4  # a launch's time depends on the random placement of tensors
MOST_RECORDS = 1 << 20  # 44 MB with six phases; limits launches with many warps
_ROOM = 1024  # passes of a warp that phases.cuh has room for
_NOTED = 8  # launches whose passes are kept, fewer where they would be more than `_MOST_PASSES`
_MOST_PASSES = 1 << 18  # 1 MB before compression
_MOST_NOTING = 1 << 17  # warps; their room is 512 MB
_COST_SAMPLES = 200
_WARP = 32
_UNWRITTEN = np.uint32(UNWRITTEN).view(np.int32).item()  # torch supports few operations on unsigned words


def stamp_phases(task: ProfileTask) -> None:
    """Verifies the stamped kernel, launches it, times it interleaved with the plain one, and stores the stamps.

    For a kernel of several launches, the task's launch is stamped, in whole calls whose other launches are plain.
    Raises ProfilerError if the stamped kernel's numbers are wrong.
    """
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        placed = place_case(task, copies=PLACEMENTS)
        launch = launch_of(placed.entry.kernel, task.entry)
        assert isinstance(launch, CudaLaunch)
        bind, code = load_stamped(placed.entry, placed.case.variant, placed.case.workload, launch)
        names = _names(code)
        buffer = _make_records(_warps(placed, launch), HEAD + len(names))
        write_global(code, "gdnbench_phase_records", buffer.data_ptr().to_bytes(8, "little"))
        stamped = bind_all(bind, placed)
        verify_altered(stamped[0], placed, "stamped")
        plain = bind_all(load(placed.entry, placed.case.variant, placed.case.workload), placed)
        [records] = _record(stamped, [buffer], max(1, min(task.launches, MOST_RECORDS // len(buffer))))
        times = time_cold({"plain": plain, "stamped": stamped}, _COST_SAMPLES, task.seed)
        passes = _note_passes(placed, launch, task.launches) if len(buffer) <= _MOST_NOTING else None
    about = _about(task, placed, names, launch)
    stamps = Stamps(about, records, np.array(times["plain"]), np.array(times["stamped"]), passes)
    stamps.write(Path(task.result))


def _note_passes(placed: PlacedCase, launch: CudaLaunch, asked: int) -> Passes | None:
    """Verifies and launches the kernel whose warps note each pass; returns the passes, of a large grid its first.

    Returns None for a launch so long that a pass's cycles do not fit.
    """
    bind, code = load_stamped(placed.entry, placed.case.variant, placed.case.workload, launch, marks=2)
    warps = _warps(placed, launch)
    records = _make_records(warps, COUNTED + 1)
    words = torch.empty((warps, _ROOM), dtype=torch.int32, device="cuda")
    for name, buffer in (("gdnbench_phase_records", records), ("gdnbench_phase_passes", words)):
        write_global(code, name, buffer.data_ptr().to_bytes(8, "little"))
    runs = bind_all(bind, placed)
    verify_altered(runs[0], placed, "noting")
    records.fill_(_UNWRITTEN)
    runs[0]()
    if int(records[:, TOTAL].max()) >> CYCLE_BITS:
        return None
    most = min(max(int(records[:, COUNTED].max()), 1), _ROOM)
    block = _block_warps(placed, launch)
    kept = min(warps, max(_MOST_PASSES // most // block, 1) * block)
    launches = min(max(_MOST_PASSES // (most * kept), 1), _NOTED, asked)
    return Passes(*_record(runs, [records, words[:, :most]], launches, kept))


def _make_records(warps: int, words: int) -> torch.Tensor:
    """Makes a record for each warp, an array [warps, words]; behind it is a word of each that phases.cuh needs."""
    room = torch.full((warps * (words + 1),), _UNWRITTEN, dtype=torch.int32, device="cuda")
    return room[: warps * words].view(warps, words)


def _names(code: Any) -> tuple[str, ...]:
    """Returns the phases as the source lists them: GDNBENCH_PHASE_NAMES keeps its arguments as text."""
    listed = read_global(code, "gdnbench_phase_names").rstrip(b"\0").decode()
    return tuple(name.strip() for name in listed.split(","))


def _warps(placed: PlacedCase, launch: CudaLaunch) -> int:
    grid = launch.grid(placed.case.workload, placed.case.variant.params)
    return prod(grid) * _block_warps(placed, launch)


def _block_warps(placed: PlacedCase, launch: CudaLaunch) -> int:
    return -(-launch.block(placed.case.workload, placed.case.variant.params) // _WARP)


def bind_all(bind: Binder, placed: PlacedCase) -> list[Launcher]:
    """Binds a kernel at every placement, and warms it up there."""
    runs = [bind(workspace) for workspace in placed.workspaces]
    for _ in range(WARM_UPS):
        for run in runs:
            run()
    torch.cuda.synchronize()
    return runs


def _record(
    runs: Sequence[Launcher], buffers: Sequence[torch.Tensor], launches: int, rows: int | None = None
) -> list[WordArray]:
    """Launches with a cold L2; returns what each buffer then held, in its first rows: arrays [launches, rows, …]."""
    found: list[list[torch.Tensor]] = [[] for _ in buffers]
    flush = L2Flush()
    raise_clock()
    for launch in range(launches):
        for buffer in buffers:
            buffer.fill_(_UNWRITTEN)
        flush()
        runs[launch % len(runs)]()
        for buffer, copies in zip(buffers, found, strict=True):
            copies.append(buffer[:rows].clone())
    torch.cuda.synchronize()
    return [torch.stack(copies).cpu().numpy().view(np.uint32) for copies in found]


def _about(task: ProfileTask, placed: PlacedCase, names: tuple[str, ...], launch: CudaLaunch) -> StampedKernel:
    major, minor = torch.cuda.get_device_capability()
    arch, case = f"sm_{major}{minor}", placed.case
    plain, stamped = (
        build(Job(placed.entry, case.variant, case.workload, arch, task.entry, stamped=marks, disassembled=False))
        for marks in (False, True)
    )
    return StampedKernel(
        op=task.op,
        label=case.label,
        shape={name: size if isinstance(size, int) else list(size) for name, size in case.workload.sizes.items()},
        profile=case.workload.profile,
        gpu=torch.cuda.get_device_name(),
        arch=arch,
        phases=names,
        asked=task.launches,
        registers=plain.registers,
        stamped_registers=stamped.registers,
        stamped_spill_bytes=stamped.spill_bytes,
        source=task.source,
        entry=task.entry,
        block_warps=_block_warps(placed, launch),
    )


def read_global(code: Any, name: str) -> bytes:
    """Returns the content of an `extern "C"` global in cuda-core's `ObjectCode`; raises ProfilerError without one."""
    address, size = _find(code, name)
    content = np.empty(size, dtype=np.uint8)
    _check(driver.cuMemcpyDtoH(content.ctypes.data, address, size), name)
    return content.tobytes()


def write_global(code: Any, name: str, content: bytes) -> None:
    """Sets a global; raises ProfilerError if there is none of this name and size, or the driver refuses."""
    address, size = _find(code, name)
    if size != len(content):
        raise ProfilerError(f"the kernel's {name} has {size} bytes, not {len(content)}")
    source = np.frombuffer(content, dtype=np.uint8)
    _check(driver.cuMemcpyHtoD(address, source.ctypes.data, size), name)


def _find(code: Any, name: str) -> tuple[Any, int]:
    address, size = _check(driver.cuLibraryGetGlobal(driver.CUlibrary(int(code.handle)), name.encode()), name)
    return address, size


def _check(answer: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    status, *rest = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise ProfilerError(f"the kernel's {name} cannot be reached: {status.name}")
    return tuple(rest)


def launch_untouched(task: ProfileTask) -> None:
    """Launches the task's case once on inputs of the op's first kind, synchronizes, and writes the task's result."""
    placed = place_case(task, device="cpu")
    kernel, variant, drawn = placed.entry.kernel, task.case.variant, placed.workspace
    if isinstance(kernel, CudaKernel | TritonKernel):
        drawn.by_name(kernel.scratch, variant.params)  # allocates the scratch
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        run = load(placed.entry, variant, task.case.workload)(_on_gpu(drawn))  # keeps the tensors alive
        run()
        torch.cuda.synchronize()
    Path(task.result).write_text("launched\n")


def _on_gpu(drawn: Workspace) -> Workspace:
    inputs = {name: tensor.to("cuda") for name, tensor in drawn.inputs.items()}
    return replace(
        drawn,
        inputs=inputs,
        pristine=inputs,  # initial values of tensors updated in place; only this one launch changes them
        outputs={name: torch.empty_like(tensor, device="cuda") for name, tensor in drawn.outputs.items()},
        scratch={key: torch.empty_like(tensor, device="cuda") for key, tensor in drawn.scratch.items()},
    )
