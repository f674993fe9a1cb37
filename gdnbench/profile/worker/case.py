"""A case on the GPU: inputs at several placements, verification of an altered kernel, the SM clock, and a cold timer.

Like NVBench's cold measurement, the timer overwrites the L2 before each launch, blocks the GPU with a kernel until the
launch and its events are queued, so that no host time is in between, and reads CUDA events. Unlike `gdnbench run` it
has no rounds, no control and no interval: it is for differences of many per cent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import nvtx
import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import ProfilerError
from gdnbench.launch import Launcher, Workspace, load, load_numerics
from gdnbench.model.case import Case
from gdnbench.profile.process import DOMAIN, PROFILED, ProfileTask, range_name
from gdnbench.verify.check import consult_oracle, verify_launcher
from gdnbench.workers.cold import L2Flush, raise_clock

WARM_UPS = 5  # compile, load, and settle the allocator before profiling
_CYCLES = 20_000_000  # 10 ms at 1.98 GHz, so that the 3 µs of a launch are 0.03 %
_LEAST_BLOCK_S = 60e-6  # time to enqueue two events and a launch
_CYCLES_PER_S = 3e9  # above any GPU's SM clock, so that the kernel blocks for long enough
_TRIALS = 5


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


def place_case(task: ProfileTask, *, copies: int = 1) -> PlacedCase:
    """Draws inputs of the op's first kind on the GPU, at `copies` placements."""
    catalog = load_catalog(Path(root) for root in task.roots)
    op = catalog.ops[task.op]
    numerics = load_numerics(op, catalog.op_folders[op.name])
    case = task.case
    kind = op.inputs_to_verify(case.workload)[0]
    first = Workspace.make(op, numerics, case.workload, seed=task.seed, device="cuda", scenario=kind)
    workspaces = (first, *(first.copy() for _ in range(copies - 1)))
    torch.cuda.synchronize()
    return PlacedCase(catalog.entries[case.variant.kernel], case, workspaces)


def verify_altered(run: Launcher, placed: PlacedCase, altered: str) -> None:
    """Raises ProfilerError if a kernel that a profiler altered (`stamped`, say) computes wrong numbers."""
    entry, workspace = placed.entry, placed.workspace
    expected = consult_oracle(workspace, load_numerics(entry.op, entry.op_folder))
    scenario, in_place = entry.op.inputs_to_verify(workspace.workload)[0], entry.kernel.in_place
    gates = verify_launcher(run, workspace, expected, scenario, torch.cuda.synchronize, in_place)
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
    """Times launchers cold, one sample of each in turn, in an order shuffled anew each time.

    `arms` has by name a launcher for each placement, taken in turn. Returns `samples` times in microseconds, by name.
    """
    stream = torch.cuda.current_stream()
    flush = L2Flush()
    order = random.Random(seed)
    names = list(arms)
    pairs: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in names}
    blocking = _blocking_cycles([runs[0] for runs in arms.values()])
    raise_clock()
    for sample in range(samples):
        order.shuffle(names)
        for name in names:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            run = arms[name][sample % len(arms[name])]
            flush()
            torch.cuda._sleep(blocking)  # type: ignore[no-untyped-call]
            begin.record(stream)
            run()
            end.record(stream)
            pairs[name].append((begin, end))
        stream.synchronize()
    return {name: [begin.elapsed_time(end) * 1e3 for begin, end in timed] for name, timed in pairs.items()}


def _blocking_cycles(runs: Sequence[Launcher]) -> int:
    """Returns cycles for the blocking kernel: twice the slowest launcher's host time, as some launch many kernels."""
    longest = max(_host_s(run) for run in runs)
    return int(max(_LEAST_BLOCK_S, 2 * longest) * _CYCLES_PER_S)


def _host_s(run: Launcher) -> float:
    """Returns seconds until the launcher returns; the median of `_TRIALS`."""
    times = []
    for _ in range(_TRIALS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return median(times)


def launch_in_ranges(task: ProfileTask) -> None:
    """Binds the kernel, warms it up, and launches it `task.launches` times, each in a range and synchronized."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        placed = place_case(task)
        run = load(placed.entry, placed.case.variant, placed.case.workload)(placed.workspace)
        for _ in range(WARM_UPS):
            run()
        torch.cuda.synchronize()
        for _ in range(task.launches):
            _launch(run, range_name(task.op, placed.case, task.source))


def _launch(run: Launcher, name: str) -> None:
    # Two kinds of ranges: the push/pop range names the launch on a timeline; the start/end range, which does not depend
    # on the stack, is the profiler's filter.
    with nvtx.annotate(name, domain=DOMAIN):
        profiled = nvtx.start_range(PROFILED, domain=DOMAIN)
        run()
        torch.cuda.synchronize()
        nvtx.end_range(profiled)
