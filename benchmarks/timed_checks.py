"""What do the checks of timed launches cost, and do they move a kernel's time?

Every kernel is measured twice in each round of each process: as a run does it, with other inputs for each launch and a
few launches of each round held against the oracle, and left alone. Prints for each kernel and workload the ratio of the
two times with its 95 % interval (1 where the checks move nothing), and what a round takes with checks and without; by
CUPTI that is not known, whose records are read when the rounds of all cases are over.

`timed-checks.csv` is of two H200s, each on a host of its own; its column `card` is not in a table that this writes.

From the root of the repository, on a machine with a GPU:

    python -m benchmarks.timed_checks --kernel decode-v9,decode-fla --shape B=1,8,64 --out checks.csv
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gdnbench.analyse.rounds import Collected, RoundTimes
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import parse_workloads
from gdnbench.catalog.select import select_variants
from gdnbench.errors import MachineError
from gdnbench.machine.gpus import alone_on, list_gpus, select_gpu
from gdnbench.measure.schedule import FixedRounds, most_placed_bytes
from gdnbench.measure.timing import Target, TimingWorkers
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Clock, Role
from gdnbench.render.console import data_console, plain_table
from gdnbench.store.journal import BURN_IN, Event, Sampled
from gdnbench.verbs.progress import watch
from gdnbench.workers.supervision import worker_environment
from gdnbench.workers.task import Phase, Task

OP = "decode"
CONFIDENCE = 0.95
STEP_LIMIT_S = 60.0


@dataclass
class Stopwatch:
    """Seconds of each round of a case, its checks included, from one event of its worker to the next."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _last: float = 0.0

    def take(self, event: Event) -> None:
        """Notes when a round of a case is over."""
        now = time.perf_counter()
        if isinstance(event, Sampled) and event.round != BURN_IN:
            self.seconds[event.case].append(now - self._last)
        self._last = now


def main(words: Sequence[str] | None = None) -> None:
    """Measures, prints the table, and writes it as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="decode-v9,decode-v8,decode-triton,decode-fla")
    parser.add_argument("--shape", default="B=1,8,64")
    parser.add_argument("--rounds", type=int, default=42)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--timer", choices=("nvbench", "cupti", "graph"), default="nvbench")
    parser.add_argument("--gpu", default="auto")
    parser.add_argument("--out", type=Path, help="a CSV of the table")
    options = parser.parse_args(words)
    gpu = select_gpu(options.gpu, list_gpus())
    if gpu is None:
        raise MachineError("this benchmark needs a GPU, and there is none here", "see `gdnbench doctor`")
    cases = _cases(options.kernel, options.shape)
    clock: Clock | None = None if options.timer == "nvbench" else options.timer
    collected, stopwatch = _measure(gpu, cases, options.rounds, options.samples, options.processes, clock)
    rows = _rows(cases, collected, stopwatch, options.timer)
    table = plain_table()
    for title in rows[0]:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row.values())
    data_console().print(table)
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def _cases(kernels: str, shapes: str) -> list[Case]:
    """Every kernel, and again to be left alone, workload by workload."""
    catalog = load_catalog(default_roots())
    op = catalog.ops[OP]
    variants = select_variants(catalog, OP, kernels)
    return [
        Case(variant, workload, role)
        for workload in parse_workloads(op, shapes)
        for variant in variants
        for role in (Role.KERNEL, Role.CONTROL)
    ]


def _measure(
    gpu: Gpu, cases: Sequence[Case], rounds: int, samples: int, processes: int, clock: Clock | None
) -> tuple[Collected, Stopwatch]:
    collected, stopwatch = Collected(), Stopwatch()
    task = Task(
        phase=Phase.MEASURE,
        device="cuda",
        roots=tuple(map(str, default_roots())),
        op=OP,
        cases=tuple(cases),
        seed=1,
        step_limit_s=STEP_LIMIT_S,
        samples={case.id: samples for case in cases},
        placed_bytes=most_placed_bytes(gpu.memory_bytes // 2),
        left_alone=tuple(case.id for case in cases if case.role is Role.CONTROL),
        clock=clock,
    )
    schedule = FixedRounds(rounds, processes)
    with TemporaryDirectory() as folder, watch(quiet=False) as observer, alone_on(gpu, observer):
        workers = TimingWorkers(Path(folder), worker_environment(gpu), observer, stopwatch.take)
        while segment := schedule.next_segment(cases, collected, task.samples, {}):
            workers.measure(task, [Target(segment.cases, segment.rounds, collected, clock=clock)])
    return collected, stopwatch


def _rows(cases: Sequence[Case], collected: Collected, stopwatch: Stopwatch, timer: str) -> list[dict[str, str]]:
    times = RoundTimes(collected, CONFIDENCE)
    rows = []
    for workload in dict.fromkeys(case.workload for case in cases):
        here = [case for case in cases if case.workload == workload and case.id in times.times]
        at = times.workload([case.id for case in here], "nvbench" if timer == "nvbench" else "")
        for case in here:
            alone = replace(case, role=Role.CONTROL).id
            if case.role is Role.CONTROL or alone not in times.times:
                continue
            ratio = at.ratio(case.id, alone)
            rows.append(
                {
                    "timer": timer,
                    "workload": str(workload),
                    "kernel": case.label,
                    "checked_us": f"{at.interval(case.id).estimate:.4f}",
                    "left_alone_us": f"{at.interval(alone).estimate:.4f}",
                    "ratio": f"{ratio.estimate:.5f}",
                    "low": f"{ratio.low:.5f}",
                    "high": f"{ratio.high:.5f}",
                    "round_ms": "" if timer == "cupti" else _mean_ms(stopwatch.seconds[case.id]),
                    "round_left_alone_ms": "" if timer == "cupti" else _mean_ms(stopwatch.seconds[alone]),
                }
            )
    return rows


def _mean_ms(seconds: Sequence[float]) -> str:
    return f"{1e3 * sum(seconds) / len(seconds):.2f}"


if __name__ == "__main__":
    main()
