"""What translations of addresses cost: trips by the number of pages visited in turn, and launches after many pages.

Prints rows and writes a CSV. A trip is a load of a line in the L2 whose address the load before it has brought; lap
after lap one line of each page is visited. A launch is a kernel's own time by CUPTI on a flushed L2, and what came
before the flush differs. docs/timing.md says what came out.

From the root of the repository, on a machine with a GPU and nothing else on it:

    python -m benchmarks.peers.translations decode-v9 decode-v1 --csv translations.csv
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

import torch

from gdnbench.calibrate import probe
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import parse_workload
from gdnbench.launch.bind import load
from gdnbench.launch.numerics import load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.workers.cold import OWN_PREFIX, L2Flush, raise_clock
from gdnbench.workers.device import CudaDevice
from gdnbench.workers.launched import FILL, ActivityRecorder

from .bound import Call, on_current_stream
from .readings_worker import CALLS, PAGE, WARM_UPS

COUNTS = (32, 512, 2048, 8192, 16384, 24576, 32768, 34000, 36864, 40960, 49152, 57344)
KEPT_FREE = 8 << 30  # bytes
REPEATS = 2

Row = tuple[str, str, float]
"""What is timed, what was visited, and ns."""


def main(words: Sequence[str] | None = None) -> None:
    """Times trips and launches, prints and writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", metavar="KERNEL", help="of decode")
    parser.add_argument("--shape", default="B=1")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args(words)
    rows: list[Row] = []
    with CudaDevice().current(), torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        raise_clock()
        for row in (*launches(options.kernels, options.shape), *trips()):
            rows.append(row)
            print(f"{row[0]:12} {row[1]:60} {row[2]:10.1f} ns", flush=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("gpu", "what", "visited", "ns"), *_named(rows)])


def _named(rows: Sequence[Row]) -> Iterator[tuple[str, str, str, str]]:
    gpu = torch.cuda.get_device_name()
    return ((gpu, what, visited, f"{ns:.1f}") for what, visited, ns in rows)


def launches(kernels: Sequence[str], shape: str) -> Iterator[Row]:
    """A row for each kernel and each thing visited before the flush, the median over all calls."""
    catalog = load_catalog(default_roots())
    op = catalog.ops["decode"]
    workload = parse_workload(op, shape, "one is timed")
    numerics = load_numerics(op, catalog.op_folders[op.name])
    workspace = Workspace.make(op, numerics, workload, seed=1, device="cuda", scenario=op.scenarios[0])
    flush, recorder = L2Flush(), ActivityRecorder()
    bytes_ = torch.cuda.mem_get_info()[0] - KEPT_FREE
    pages = torch.empty(bytes_ // 8, dtype=torch.int64, device="cuda")[:: PAGE // 8]
    few, neighbours = pages[:8192], torch.empty(8192, dtype=torch.int64, device="cuda")
    visits: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        f"{len(neighbours):,} neighbours": neighbours.sum,
        f"{len(few):,} pages": few.sum,
        f"{len(pages):,} pages": pages.sum,
    }
    for kernel in kernels:
        entry = catalog.entries[kernel]
        call = on_current_stream(load(entry, entry.default, workload), workspace)
        for _ in range(WARM_UPS):
            call()
        for visited, visit in visits.items():
            times = [time for _ in range(REPEATS) for time in _own_ns(recorder, call, visit, flush)]
            yield kernel, visited, float(median(times))


def _own_ns(recorder: ActivityRecorder, call: Call, visit: Callable[[], object], flush: L2Flush) -> list[int]:
    """Each launch's own time in ns, after a visit and a flush; the visit's kernels have other names than the call's."""
    recorder.start()
    call()
    own = {each.name for each in recorder.stop()}
    recorder.start()
    for _ in range(CALLS):
        visit()
        flush()
        call()
    found = [each for each in recorder.stop() if each.name != FILL and not each.name.startswith(OWN_PREFIX)]
    return [each.end_ns - each.start_ns for each in found if each.name in own]


def trips() -> Iterator[Row]:
    """A row for each number of pages, of one allocation, that all fit into the memory that is free."""
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0] - KEPT_FREE
    with (
        patch.object(probe, "MOST_MEMORY", free),
        patch.object(torch.cuda, "mem_get_info", lambda: (2 * free, 0)),  # the probes take half of it
    ):
        probes = probe.Probes()
    for count in COUNTS:
        if count <= probes.pages:
            cost = probe.measure_cost("trip", "pages", partial(probes._pages_in_turn, count))
            yield "trip", f"{count:,} pages in turn", cost.ns


if __name__ == "__main__":
    main()
