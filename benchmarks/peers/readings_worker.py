"""The process of `readings` that times calls by loops and libraries: `REQUEST.json RECORD.jsonl`.

Writes a line for each reading: the kernel, the method and µs. Nothing is warmed up but by the methods themselves, after
the clocks are raised once.
"""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from unittest.mock import patch

import torch

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import parse_workload
from gdnbench.launch.bind import load
from gdnbench.launch.numerics import load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.model.declaration import Params
from gdnbench.process.worker import die_with_parent
from gdnbench.workers.cold import L2Flush, raise_clock
from gdnbench.workers.device import CudaDevice
from gdnbench.workers.launched import FILL, Activity, ActivityRecorder

from .bound import Call, on_current_stream
from .functions_worker import MEASURE

CALLS = 200  # that are timed one by one
MANY = 2000  # that are timed together
WARM_UPS = 20
CLEARED_BYTES = 256 << 20  # what Triton and flashinfer-bench write before each call
PAGE = 2 << 20
MOST_PAGES_BYTES = 16 << 30


def wall_sync(call: Call) -> float:
    """Mean of the host's times of a call and the wait for its end."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return fmean(times) * 1e6


def wall(call: Call) -> float:
    """The host's time of many calls and one wait, of each call."""
    begin = time.perf_counter()
    for _ in range(MANY):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / MANY * 1e6


def events_each(call: Call, before: Callable[[], object] = lambda: None) -> float:
    """Mean of the times between events around each call; `before` is called first, untimed."""
    pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(CALLS)]  # type: ignore[no-untyped-call]
    for start, end in pairs:
        before()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return fmean(float(start.elapsed_time(end)) for start, end in pairs) * 1e3


def events_sync(call: Call) -> float:
    """The same, with the GPU idle before each call."""
    return events_each(call, torch.cuda.synchronize)


def events_all(call: Call) -> float:
    """The time between two events around many calls, of each call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(MANY):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / MANY * 1e3


def do_bench_warm(call: Call) -> float:
    """Triton's do_bench with the clearing of its buffer left out."""
    from triton import runtime

    with patch.object(type(runtime.driver.active), "clear_cache", lambda *_: None):
        return MEASURE["do_bench"](call)


class Timer:
    """The methods that need memory of their own beside the call's."""

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        self._inputs = inputs
        self._buffer = torch.empty(CLEARED_BYTES // 4, dtype=torch.int32, device="cuda")
        nbytes = min(MOST_PAGES_BYTES, torch.cuda.mem_get_info()[0] // 2)
        self._pages = torch.empty(nbytes // 8, dtype=torch.int64, device="cuda")[:: PAGE // 8]
        self._flush, self._recorder = L2Flush(), ActivityRecorder()

    def flashinfer_bench(self, call: Call) -> float:
        """As flashinfer-bench's do_bench: it clears 256 MB, clones the inputs, waits, and times the call by events.

        Here the call is given its own tensors, not the clones.
        """

        def before() -> None:
            self._buffer.zero_()
            self._clones = [tensor.clone() for tensor in self._inputs]
            torch.cuda.synchronize()

        return events_each(call, before)

    def profiler_warm(self, call: Call) -> float:
        """Median of the kernel's times by CUPTI, calls in a row."""
        return self._by_profiler(call, lambda: None)

    def profiler_cold_tlb(self, call: Call) -> float:
        """The same after a visit to some thousand other pages, and a flush of the L2."""

        def before() -> None:
            self._pages.sum()
            self._flush()

        return self._by_profiler(call, before)

    def _by_profiler(self, call: Call, before: Callable[[], object]) -> float:
        own = {each.name for each in self._record(call, lambda: None, 1)}
        found = [each for each in self._record(call, before, CALLS) if each.name in own]
        launches = max(1, round(len(found) / CALLS))  # of one call; a record may be lost
        calls = range(0, len(found) - launches + 1, launches)
        times = [sum(_ns(each) for each in found[at : at + launches]) for at in calls]
        return median(times) / 1e3

    def _record(self, call: Call, before: Callable[[], object], calls: int) -> list[Activity]:
        self._recorder.start()
        for _ in range(calls):
            before()
            call()
        found = [each for each in self._recorder.stop() if each.name != FILL]
        return sorted(found, key=lambda each: each.start_ns)


def _ns(activity: Activity) -> int:
    return activity.end_ns - activity.start_ns


def main(request: Path, record: Path) -> None:
    """Times every kernel by every method, as often as is asked for, those that record activities last."""
    die_with_parent()
    asked = json.loads(request.read_text())
    catalog = load_catalog(default_roots())
    op = catalog.ops[asked["op"]]
    workload = parse_workload(op, asked["shape"], "one is timed")
    numerics = load_numerics(op, catalog.op_folders[op.name])
    workspace = Workspace.make(op, numerics, workload, seed=1, device="cuda", scenario=op.scenarios[0])
    calls = {}
    for kernel, params, label in asked["kernels"]:
        entry = catalog.entries[kernel]
        variant = entry.with_params(entry.default, Params(params))
        calls[label] = on_current_stream(load(entry, variant, workload), workspace)
    device = CudaDevice()
    with device.current():
        timer = Timer(list(workspace.inputs.values()))  # whose flush stays on this stream, that of the calls
    methods: dict[str, Callable[[Call], float]] = {
        "wall-sync": wall_sync,
        "wall": wall,
        "events-sync": events_sync,
        "events-each": events_each,
        "events-all": events_all,
        "do-bench": MEASURE["do_bench"],
        "do-bench-warm": do_bench_warm,
        "do-bench-cudagraph": MEASURE["do_bench_cudagraph"],
        "flashinfer-bench": timer.flashinfer_bench,
        **({"flashinfer": MEASURE["flashinfer"]} if find_spec("flashinfer") else {}),
    }
    recorded = {"profiler-warm": timer.profiler_warm, "profiler-cold-tlb": timer.profiler_cold_tlb}
    order = random.Random(1)
    with device.current(), record.open("w") as file:
        raise_clock()
        for group in (methods, recorded):
            for _ in range(asked["repeats"]):
                for method in order.sample(list(group), len(group)):
                    for label in order.sample(list(calls), len(calls)):
                        for _ in range(WARM_UPS):
                            calls[label]()
                        torch.cuda.synchronize()
                        try:
                            us = group[method](calls[label])
                        except Exception:  # the others are still read
                            traceback.print_exc()
                            continue
                        file.write(json.dumps([label, method, us]) + "\n")
                        file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
