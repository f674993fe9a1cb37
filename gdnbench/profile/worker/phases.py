"""Launches a CUDA kernel that stamps its phases, cold, and stores its warps' records.

Launches a case once on fresh memory, the least work for a tool that watches every access.

Inputs are drawn on the CPU and copied, so that the kernel is the only one that runs. Outputs and scratch are not
poisoned: initcheck finds reads of them only while they are unwritten. The parent turns torch's caching allocator off,
so that each tensor is an allocation of its own, whose end memcheck knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cuda.bindings import driver

from gdnbench.catalog.catalog import load_catalog
from gdnbench.codegen.build import build
from gdnbench.errors import ProfilerError
from gdnbench.launch import Binder, Launcher, Workspace, load, load_numerics, load_stamped
from gdnbench.model.kernel import CudaKernel, CudaLaunch, TritonKernel, launch_of
from gdnbench.profile.phases.stamps import HEAD, UNWRITTEN, StampedKernel, Stamps, WordArray
from gdnbench.profile.process import ProfileTask
from gdnbench.profile.worker.case import PlacedCase, place_case, time_cold, verify_altered
from gdnbench.workers.cold import L2Flush, raise_clock

PLACEMENTS = 4  # a launch's time depends on the random placement of tensors
WARM_UPS = 5
MOST_RECORDS = 1 << 20  # 44 MB with six phases; limits launches with many warps
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
        buffer = torch.empty((_warps(placed, launch), HEAD + len(names)), dtype=torch.int32, device="cuda")
        write_global(code, "gdnbench_phase_records", buffer.data_ptr().to_bytes(8, "little"))
        stamped = _bind_all(bind, placed)
        verify_altered(stamped[0], placed, "stamped")
        plain = _bind_all(load(placed.entry, placed.case.variant, placed.case.workload), placed)
        records = _record(stamped, buffer, max(1, min(task.launches, MOST_RECORDS // len(buffer))))
        times = time_cold({"plain": plain, "stamped": stamped}, _COST_SAMPLES, task.seed)
    about = _about(task, placed, names, launch)
    stamps = Stamps(about, records, np.array(times["plain"]), np.array(times["stamped"]))
    stamps.write(Path(task.result))


def _names(code: Any) -> tuple[str, ...]:
    """Returns the phases as the source lists them: GDNBENCH_PHASE_NAMES keeps its arguments as text."""
    listed = read_global(code, "gdnbench_phase_names").rstrip(b"\0").decode()
    return tuple(name.strip() for name in listed.split(","))


def _warps(placed: PlacedCase, launch: CudaLaunch) -> int:
    grid = launch.grid(placed.case.workload, placed.case.variant.params)
    return prod(grid) * _block_warps(placed, launch)


def _block_warps(placed: PlacedCase, launch: CudaLaunch) -> int:
    return -(-launch.block(placed.case.workload, placed.case.variant.params) // _WARP)


def _bind_all(bind: Binder, placed: PlacedCase) -> list[Launcher]:
    """Returns a warmed-up launcher for each placement."""
    runs = [bind(workspace) for workspace in placed.workspaces]
    for _ in range(WARM_UPS):
        for run in runs:
            run()
    torch.cuda.synchronize()
    return runs


def _record(runs: Sequence[Launcher], buffer: torch.Tensor, launches: int) -> WordArray:
    """Returns the records of each launch; before each the L2 is overwritten, with the previous records in it."""
    kept = torch.empty((launches, *buffer.shape), dtype=buffer.dtype, device="cuda")
    flush = L2Flush()
    raise_clock()
    for launch in range(launches):
        buffer.fill_(_UNWRITTEN)
        flush()
        runs[launch % len(runs)]()
        kept[launch].copy_(buffer)
    torch.cuda.synchronize()
    return kept.cpu().numpy().view(np.uint32)


def _about(task: ProfileTask, placed: PlacedCase, names: tuple[str, ...], launch: CudaLaunch) -> StampedKernel:
    major, minor = torch.cuda.get_device_capability()
    arch, case = f"sm_{major}{minor}", placed.case
    plain, stamped = (
        build(placed.entry, case.variant, case.workload, arch, launch=task.entry, stamped=marks, disassembled=False)
        for marks in (False, True)
    )
    return StampedKernel(
        op=task.op,
        label=case.label,
        workload=case.workload,
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
    catalog = load_catalog(Path(root) for root in task.roots)
    op, case = catalog.ops[task.op], task.case
    entry = catalog.entries[case.variant.kernel]
    numerics = load_numerics(op, catalog.op_folders[op.name])
    kind = op.inputs_to_verify(case.workload)[0]
    drawn = Workspace.make(op, numerics, case.workload, seed=task.seed, device="cpu", scenario=kind)
    if isinstance(entry.kernel, CudaKernel | TritonKernel):
        drawn.by_name(entry.kernel.scratch, case.variant.params)  # allocates the scratch
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        run = load(entry, case.variant, case.workload)(_on_gpu(drawn))  # keeps the tensors alive
        run()
        torch.cuda.synchronize()
    Path(task.result).write_text("launched\n")


def _on_gpu(drawn: Workspace) -> Workspace:
    """Copies the inputs to the GPU, and allocates unwritten outputs and scratch there."""
    inputs = {name: tensor.to("cuda") for name, tensor in drawn.inputs.items()}
    return replace(
        drawn,
        inputs=inputs,
        pristine=inputs,  # initial values of tensors updated in place; only this one launch changes them
        outputs={name: torch.empty_like(tensor, device="cuda") for name, tensor in drawn.outputs.items()},
        scratch={key: torch.empty_like(tensor, device="cuda") for key, tensor in drawn.scratch.items()},
    )
