"""How fast the command line answers, warm disk, as a user starts it: `python -m benchmarks.cli_startup [FILE.csv]`.

Prints, and writes to the file, the median and the slowest of a number of runs beside the limit that the project holds
itself to, and the least seconds of the processor, which other work on the machine stretches less; of `verify` and of
`score --watch`, whose answer to a save is timed, with those of the workers that the warm process forks. A benchmark,
not a test: the figures depend on the machine; `cli-startup.csv` is of two idle cores.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gdnbench.process import warm_parent

RUNS, LOOPS = 20, 6
LIMITS_S = {("--help",): 0.2, ("list",): 0.4, ("list", "decode-v9"): 0.4, ("ledger",): 0.4}
CHECKS_S = {("verify", "decode-v1", "--quick"): 3.0, ("verify", "decode-v1"): 3.0, ("verify", "decode-triton"): 6.0}
WATCH_LIMIT_S = 3.0
COLUMNS = ("command", "median_s", "slowest_s", "cpu_s", "limit_s")

Times = tuple[float, float]
"""Seconds of a command, and those of the processor."""


def main() -> int:
    rows = [_row(" ".join(words), partial(_command, words), RUNS, limit) for words, limit in LIMITS_S.items()]
    with _warm_home() as home:
        for words, limit_s in CHECKS_S.items():
            rows.append(_row(" ".join(words), partial(_command, words, home), LOOPS, limit_s))
        with _watch(home) as answer:
            rows.append(_row("score --watch, after a save", answer, LOOPS, WATCH_LIMIT_S))
    for name, median_s, slowest_s, cpu_s, limit_s in rows:
        print(f"{name:36} median {median_s} s, slowest {slowest_s} s, processor {cpu_s} s, limit {limit_s} s")
    if sys.argv[1:]:
        with Path(sys.argv[1]).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return int(any(float(median_s) > limit_s for _, median_s, _, _, limit_s in rows))


def _row(name: str, once: Callable[[], Times], runs: int, limit_s: float) -> tuple[str, str, str, str, float]:
    times = sorted(once() for _ in range(runs + 1))[:runs]  # the first may start the warm process
    wall_s = [wall_s for wall_s, _ in times]
    figures_s = (statistics.median(wall_s), wall_s[-1], min(cpu_s for _, cpu_s in times))
    median_s, slowest_s, cpu_s = (f"{each:.3f}" for each in figures_s)
    return f"gdnbench {name}", median_s, slowest_s, cpu_s, limit_s


def _environment(home: Path | None = None) -> dict[str, str]:
    # With it, as in many images of containers, Python compiles all modules at every start, which users' do once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | ({"XDG_RUNTIME_DIR": str(home), "GDNBENCH_KERNELS": str(home)} if home else {})


def _command(arguments: tuple[str, ...], home: Path | None = None) -> Times:
    start, before = time.perf_counter(), os.times()
    forked_s = _forked_s(home) if home else 0.0
    command = [sys.executable, "-m", "gdnbench", *arguments]
    subprocess.run(command, check=True, capture_output=True, env=_environment(home))
    wall_s, after = time.perf_counter() - start, os.times()
    used_s = after.children_user - before.children_user + after.children_system - before.children_system
    return wall_s, used_s + (_forked_s(home) - forked_s if home else 0.0)


@contextmanager
def _warm_home() -> Iterator[Path]:
    """A folder for the socket of the process that forks workers, which ends with it, and for a kernel."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        try:
            yield Path(folder)
        finally:
            for process in _warm_parents(Path(folder)):
                os.kill(process, 9)


@contextmanager
def _watch(home: Path) -> Iterator[Callable[[], Times]]:
    """Watches a copy of decode-v1; yields what saves it and waits for the line of its score."""
    _command(("new", "decode-mine", "--from", "decode-v1", "--to", str(home)), home)
    source = home / "decode" / "mine" / "kernel.cu"
    command = [sys.executable, "-m", "gdnbench", "score", "decode-mine", "--gpu", "cpu", "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment(home)) as process:
        assert process.stdout

        def answer() -> Times:
            assert process.stdout
            start, before_s = time.perf_counter(), _used_s(process.pid) + _forked_s(home)
            source.write_text(f"{source.read_text()}// {start}\n")
            process.stdout.readline()
            return time.perf_counter() - start, _used_s(process.pid) + _forked_s(home) - before_s

        process.stdout.readline()
        yield answer
        process.terminate()


def _warm_parents(home: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if warm_parent.__name__.encode() in words and str(home).encode() in words:
            found.append(int(path.parent.name))
    return found


def _forked_s(home: Path) -> float:
    return sum(map(_used_s, _warm_parents(home)))


def _used_s(process: int) -> float:
    """Seconds of the processor of a process and of its children that have ended (proc(5), stat 14 to 17)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
