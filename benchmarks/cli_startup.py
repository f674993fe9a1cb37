"""How fast the command line answers: `gdnbench --help` and `gdnbench list`, warm disk, as a user starts them.

Prints the median and the slowest of a number of runs beside the limit that the project holds itself to. A benchmark,
not a test: the figure depends on the machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

RUNS = 20
LIMITS_S = {("--help",): 0.3, ("list",): 0.5}


def main() -> int:
    slow = False
    for arguments, limit_s in LIMITS_S.items():
        times_s = sorted(_time_s(arguments) for _ in range(RUNS + 1))[:RUNS]
        median_s = statistics.median(times_s)
        slow |= median_s > limit_s
        print(
            f"gdnbench {' '.join(arguments):8} median {median_s:.3f} s, slowest {times_s[-1]:.3f} s, limit {limit_s} s"
        )
    return int(slow)


def _time_s(arguments: tuple[str, ...]) -> float:
    # With it, as in many images of containers, Python compiles all modules at every start, which users' do once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gdnbench", *arguments], check=True, capture_output=True, env=environment)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
