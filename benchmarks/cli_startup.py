"""How fast the command line answers, warm disk, as a user starts it: `python -m benchmarks.cli_startup [FILE.csv]`.

Prints, and writes to the file, the median and the slowest of a number of runs beside the limit that the project holds
itself to, and the least seconds of the processor, which other work on the machine stretches less. A benchmark, not a
test: the figures depend on the machine; `cli-startup.csv` is of two idle cores.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 20
LIMITS_S = {("--help",): 0.2, ("list",): 0.4, ("list", "decode-v9"): 0.4, ("ledger",): 0.4}
COLUMNS = ("command", "median_s", "slowest_s", "cpu_s", "limit_s")


def main() -> int:
    rows = [_row(arguments, limit_s) for arguments, limit_s in LIMITS_S.items()]
    for name, median_s, slowest_s, cpu_s, limit_s in rows:
        print(f"{name:24} median {median_s} s, slowest {slowest_s} s, processor {cpu_s} s, limit {limit_s} s")
    if sys.argv[1:]:
        with Path(sys.argv[1]).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return int(any(float(median_s) > limit_s for _, median_s, _, _, limit_s in rows))


def _row(arguments: tuple[str, ...], limit_s: float) -> tuple[str, str, str, str, float]:
    times = sorted(_times_s(arguments) for _ in range(RUNS + 1))[:RUNS]
    wall_s = [wall_s for wall_s, _ in times]
    figures_s = (statistics.median(wall_s), wall_s[-1], min(cpu_s for _, cpu_s in times))
    median_s, slowest_s, cpu_s = (f"{each:.3f}" for each in figures_s)
    return f"gdnbench {' '.join(arguments)}", median_s, slowest_s, cpu_s, limit_s


def _times_s(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Seconds of a command as a process, and those of the processor."""
    # With it, as in many images of containers, Python compiles all modules at every start, which users' do once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "gdnbench", *arguments], check=True, capture_output=True, env=environment)
    after = os.times()
    used_s = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - start, used_s


if __name__ == "__main__":
    sys.exit(main())
