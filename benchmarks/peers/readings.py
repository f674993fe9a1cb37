"""What each way of timing reads of the same kernels on the same card: a habit beside the truth.

Prints a table for each kernel and writes a CSV. People's own loops and libraries take turns in one process, in another
order each time; NVBench, CUPTI, graph replay and pipelined events are the clocks of a quick `gdnbench run`, which also
verifies the kernels. docs/timing.md says what every row holds.

From the root of the repository, on a machine with a GPU:

    python -m benchmarks.peers.readings decode-v9 decode-v1 --shape B=1 --csv readings.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from gdnbench.catalog.catalog import Catalog, default_roots, load_catalog
from gdnbench.catalog.request import parse_workload
from gdnbench.catalog.select import find_variant, resolve_op
from gdnbench.errors import MachineError
from gdnbench.machine.gpus import alone_on, list_gpus, select_gpu
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import CLOCKS, Role
from gdnbench.process.command import PYTHON
from gdnbench.process.events import ignore
from gdnbench.render.console import data_console, plain_table
from gdnbench.store.find import find_run
from gdnbench.store.measurements import read_by_clock
from gdnbench.workers.supervision import worker_environment

WORKER = "benchmarks.peers.readings_worker"
TRUTH = "cupti"
LABEL = "readings"

METHODS = {
    "wall-sync": "time.perf_counter around a call and synchronize()",
    "wall": "time.perf_counter around many calls, one synchronize()",
    "events-sync": "events around each call, synchronize() after each",
    "events-each": "events around each call, pipelined",
    "events-all": "events around many calls",
    "do-bench": "triton do_bench",
    "do-bench-warm": "triton do_bench, its flush left out",
    "do-bench-cudagraph": "triton do_bench_cudagraph",
    "flashinfer-bench": "the loop of flashinfer-bench: clones, flush, synchronize(), events",
    "flashinfer": "FlashInfer bench_gpu_time",
    "events": "gdnbench events: 100 calls between two events",
    "nvbench": "NVBench cold, as gdnbench run: event to event, launch included",
    "graph": "gdnbench graph: a launch's share of a replay, cold",
    "profiler-warm": "CUPTI by torch's profiler, calls in a row",
    "cupti": "CUPTI, L2 flushed: first block's start to last block's end",
    "profiler-cold-tlb": "CUPTI, L2 flushed, translations evicted",
    "ncu": "ncu's duration, caches flushed, clocks as they are",
}


@dataclass(frozen=True)
class Reading:
    """What a method reads of a kernel, µs: the median of its repeats with the least and the most, or an interval."""

    gpu: str
    kernel: str
    workload: str
    method: str
    us: float
    least_us: float
    most_us: float


def main(words: Sequence[str] | None = None) -> None:
    """Times by every method, prints the tables, and writes them as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", metavar="KERNEL")
    parser.add_argument("--shape", default="B=1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ncu", action="store_true", help="read ncu's duration, too, where it may count")
    parser.add_argument("--gpu", default="auto")
    parser.add_argument("--out", type=Path, help="a folder of runs that keeps the run; by default it is removed")
    parser.add_argument("--csv", type=Path, help="a CSV of the tables")
    options = parser.parse_args(words)
    gpu = select_gpu(options.gpu, list_gpus())
    if gpu is None:
        raise MachineError("this benchmark needs a GPU, and there is none here", "see `gdnbench doctor`")
    catalog = load_catalog(default_roots())
    op = resolve_op(catalog, "", options.kernels)
    cases = cases_of(catalog, op, options.kernels, options.shape, gpu)
    with TemporaryDirectory() as folder:
        readings = [
            *by_functions(gpu, op, options.shape, cases, options.repeats),
            *by_clocks(gpu, cases, options.out or Path(folder)),
        ]
    readings += by_ncu(gpu, cases, options.shape) if options.ncu else []
    for case in cases:
        print_table([each for each in readings if each.kernel == case.label])
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [each.name for each in fields(Reading)])
            writer.writeheader()
            writer.writerows(asdict(each) for each in readings)


def cases_of(catalog: Catalog, op: str, kernels: Sequence[str], shape: str, gpu: Gpu) -> list[Case]:
    """The kernels of an op at one workload, a dispatcher's by what it picks there."""
    workload = parse_workload(catalog.ops[op], shape, "one is timed")
    named = [find_variant(catalog, op, label)[1] for label in kernels]
    return [Case(catalog.behind(variant, workload, gpu.slug)[1], workload, Role.KERNEL) for variant in named]


def environment() -> dict[str, str]:
    """The variables of a child, which imports this repository's modules."""
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def by_functions(gpu: Gpu, op: str, shape: str, cases: Sequence[Case], repeats: int) -> list[Reading]:
    """Readings of the loops and libraries that one process can try; a library that is not there has none."""
    with TemporaryDirectory() as folder, alone_on(gpu, ignore):
        request, record = Path(folder, "request.json"), Path(folder, "record.jsonl")
        kernels = [[case.variant.kernel, dict(case.variant.params), case.label] for case in cases]
        request.write_text(json.dumps({"op": op, "shape": shape, "kernels": kernels, "repeats": repeats}))
        variables = {**environment(), **worker_environment(gpu), "PYTHONPATH": environment()["PYTHONPATH"]}
        subprocess.run([*PYTHON, "-m", WORKER, request, record], check=True, env=variables)
        found: dict[tuple[str, str], list[float]] = {}
        for line in record.read_text().splitlines():
            kernel, method, us = json.loads(line)
            found.setdefault((kernel, method), []).append(us)
    workload = str(cases[0].workload)
    return [
        Reading(gpu.name, kernel, workload, method, median(us), min(us), max(us))
        for (kernel, method), us in found.items()
    ]


def by_clocks(gpu: Gpu, cases: Sequence[Case], results: Path) -> Iterator[Reading]:
    """Readings of the clocks of a quick run, which stays in the folder of runs, with their intervals."""
    kernels = ",".join(case.label for case in cases)
    words = ["run", "-k", kernels, "--baseline", cases[0].label, *cases[0].workload.options, "--quick", "--quiet"]
    words += ["--timer", ",".join(("nvbench", *CLOCKS)), "--label", LABEL, "--out", str(results), "--gpu", gpu.uuid]
    subprocess.run([*PYTHON, "-m", "gdnbench", *words], check=False, stdout=subprocess.DEVNULL, env=environment())
    wanted = {(case.label, case.workload) for case in cases}
    for clock, rows in read_by_clock(find_run(results, LABEL)).items():
        for row in rows:
            if row.timing and (row.case.label, row.case.workload) in wanted:
                time = row.timing
                found = (clock or "nvbench", time.time_us, time.time_lo_us, time.time_hi_us)
                yield Reading(gpu.name, row.case.label, str(row.case.workload), *found)


def by_ncu(gpu: Gpu, cases: Sequence[Case], shape: str) -> Iterator[Reading]:
    """Readings of ncu's durations; none where ncu is not there or may not count."""
    for case in cases:
        with TemporaryDirectory() as folder:
            words = ["ncu", case.label, "--shape", shape, "--repeat", "3", "--gpu", gpu.uuid, "--profiles", folder]
            done = subprocess.run(
                [*PYTHON, "-m", "gdnbench", *words, "--csv"],
                check=False,
                capture_output=True,
                text=True,
                env=environment(),
            )
        rows = [float(row["duration_us"]) for row in csv.DictReader(done.stdout.splitlines()) if row.get("duration_us")]
        if rows:
            yield Reading(gpu.name, case.label, str(case.workload), "ncu", median(rows), min(rows), max(rows))
        else:
            print(f"ncu: {' '.join(done.stderr.split())[-300:]}", file=sys.stderr)


def print_table(readings: Sequence[Reading]) -> None:
    """Prints a kernel's readings from the longest to the shortest, and how many times CUPTI's each is."""
    truth = next((each.us for each in readings if each.method == TRUTH), None)
    table = plain_table()
    for title in ("way of timing", "µs", "least", "most", "of CUPTI, cold"):
        table.add_column(title, justify="left" if title == "way of timing" else "right")
    for each in sorted(readings, key=lambda each: -each.us):
        of_truth = f"{each.us / truth:.2f}x" if truth else ""
        table.add_row(METHODS[each.method], *(f"{us:.3f}" for us in (each.us, each.least_us, each.most_us)), of_truth)
    data_console().print(f"{readings[0].kernel} {readings[0].workload} on {readings[0].gpu}", table, "", sep="\n")


if __name__ == "__main__":
    main()
