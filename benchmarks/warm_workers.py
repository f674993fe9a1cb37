"""How soon does a worker begin, as a process of its own and forked from one that has imported torch?

Prints, for each way, the median and the slowest time until a worker that has torch answers, of the first ten and of the
last ten of a hundred. A benchmark, not a test: the figures depend on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.process.warm import WarmParent
from gdnbench.process.worker import Worker, python_path
from gdnbench.render.console import data_console, plain_table

WORKER = """
import sys
from dataclasses import dataclass

import torch

from gdnbench.process.channel import Channel


@dataclass
class Answer:
    total: float


Channel(int(sys.argv[-1])).send(Answer(torch.ones(3).sum().item()))
"""
LIMIT_S = 180.0


@dataclass(frozen=True)
class Answer:
    """A worker's only message."""

    total: float


def main(words: Sequence[str] | None = None) -> None:
    """Prints a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=100, help="how many to fork")
    parser.add_argument("--fresh", type=int, default=10, help="how many to start as processes of their own")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "answering_worker.py").write_text(WORKER)
        environment = {"PYTHONPATH": f"{python_path()}:{folder}"}
        fresh = [_begin_s(environment, None) for _ in range(asked.fresh)]
        warm = WarmParent(environment, idle_s=5.0)
        first_s = _begin_s(environment, warm)
        forked = [_begin_s(environment, warm) for _ in range(asked.workers)]
    table = plain_table()
    for title in ("workers", "count", "median, ms", "slowest, ms"):
        table.add_column(title, justify="left" if title == "workers" else "right")
    for name, times_s in (
        ("processes of their own", fresh),
        ("the first fork, with the import", [first_s]),
        ("the next ten forks", forked[:10]),
        ("the last ten forks", forked[-10:]),
    ):
        table.add_row(name, str(len(times_s)), f"{1e3 * statistics.median(times_s):.0f}", f"{1e3 * max(times_s):.0f}")
    data_console().print(table)


def _begin_s(environment: dict[str, str], warm: WarmParent | None) -> float:
    """Seconds from asking for a worker to its answer."""
    begin = time.perf_counter()
    with (
        tempfile.TemporaryFile() as log,
        Worker("answering_worker", [], [Answer], log, environment, warm=warm) as worker,
    ):
        answer = worker.receive(time.monotonic() + LIMIT_S)
        took_s = time.perf_counter() - begin
        if answer != Answer(3.0):
            sys.exit(f"a worker did not answer: {worker.log_tail(3)}")
        worker.end()
    return took_s


if __name__ == "__main__":
    main()
