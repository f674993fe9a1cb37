"""A case on the GPU: inputs at several placements, its altered kernel verified, the SM clock, and a cold timer.

Like NVBench's cold measurement the timer overwrites the L2 before each launch, lets a blocking kernel keep the GPU busy
until the launch and its events are queued, so that no host time is in between, and reads CUDA events. Unlike
`gdnbench run` it has no rounds, no control and no interval: it is for differences of many per cent.
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
from gdnbench.catalog.entry import Entry
from gdnbench.errors import ProfilerError
from gdnbench.launch import Launcher, Workspace, load, load_numerics
from gdnbench.measuring.worker.cold import L2Flush, raise_clock
from gdnbench.model.case import Case
from gdnbench.profilers.process import DOMAIN, PROFILED, ProfileTask, range_name
from gdnbench.verify import consult_oracle, verify_launcher

WARM_UPS = 5  # compile, load, and settle the allocator before anything is watched
_CYCLES = 20_000_000  # 10 ms at 1.98 GHz, so that the 3 µs of a launch are 0.03 %
_LEAST_BLOCK_S = 60e-6  # to enqueue two events and a launch
_CYCLES_PER_S = 3e9  # above any GPU's SM clock, so that a kernel of so many cycles blocks for long enough
_TRIALS = 5


@dataclass(frozen=True)
class PlacedCase:
    """What a worker works on.

    Attributes:
        entry: the kernel.
        case: its params and the workload.
        workspaces: equal tensors in several places of the GPU's memory; the first where one is enough.
    """

    entry: Entry
    case: Case
    workspaces: tuple[Workspace, ...]

    @property
    def workspace(self) -> Workspace:
        """The first placement."""
        return self.workspaces[0]


def place_case(task: ProfileTask, *, copies: int = 1) -> PlacedCase:
    """Draws typical inputs on the GPU, at as many places as asked for."""
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
    """Verifies a kernel that a profiler altered, at the first placement: what was added must change no number.

    Args:
        run: launches the altered kernel.
        placed: what it is bound to.
        altered: what was done to it, `stamped`, as the error says.

    Raises:
        ProfilerError: if its numbers are wrong.
    """
    entry, workspace = placed.entry, placed.workspace
    expected = consult_oracle(workspace, load_numerics(entry.op, entry.op_folder))
    scenario, in_place = entry.op.inputs_to_verify(workspace.workload)[0], entry.kernel.in_place
    gates = verify_launcher(run, workspace, expected, scenario, torch.cuda.synchronize, in_place)
    if failed := [gate for gate in gates if not gate.passed]:
        raise ProfilerError(f"the {altered} kernel's numbers are wrong: {failed[0].reason}")


def measure_sm_mhz() -> float:
    """The SM clock now, in MHz: CUDA events around a kernel that waits for a known number of cycles of it.

    torch's `_sleep` returns once `clock64()` has advanced by as many cycles as it is given. To be comparable it is
    called when the GPU is as busy as it was for what is to be converted: an idle GPU lowers its clock.
    """
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda._sleep(1)  # type: ignore[no-untyped-call]  # its code is loaded at the first launch
    begin.record()
    torch.cuda._sleep(_CYCLES)  # type: ignore[no-untyped-call]
    end.record()
    end.synchronize()
    return _CYCLES / (float(begin.elapsed_time(end)) * 1e3)


def time_cold(arms: Mapping[str, Sequence[Launcher]], samples: int, seed: int) -> dict[str, list[float]]:
    """Times launchers cold, one sample of each in turn, in an order shuffled anew each time.

    Args:
        arms: by name, a launcher for each of some placements of its tensors, taken in turn.
        samples: timed launches of each.
        seed: of the order.

    Returns:
        Times in microseconds, by name.
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
    """Cycles of the blocking kernel: twice what the slowest launcher takes on the host; some launch many times."""
    longest = max(_host_s(run) for run in runs)
    return int(max(_LEAST_BLOCK_S, 2 * longest) * _CYCLES_PER_S)


def _host_s(run: Launcher) -> float:
    """Seconds until the launcher returns; the median of some trials."""
    times = []
    for _ in range(_TRIALS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return median(times)


def launch_in_ranges(task: ProfileTask) -> None:
    """Binds the kernel, warms it, and launches it as often as asked, each launch in a range and waited for."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        placed = place_case(task)
        run = load(placed.entry, placed.case.variant, placed.case.workload)(placed.workspace)
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
