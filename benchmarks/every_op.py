"""A run of three processes of every op: what `process_spread` reads from it is what a single process does not show.

Each op is measured at some of its workloads with its kernels in CUDA and Triton and its baseline; ops one after the
other, each in about 45 s on an H200. `--smoke` measures one op with a few rounds and ends at once where something
fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.kernel import TorchKernel

ROUNDS, PROCESSES, MOST_WORKLOADS = 24, 3, 2
SLOW = ("-reference", "-compiled", "-unfused")


def main(words: Sequence[str] | None = None) -> None:
    """Measures the ops that are named, all by default, and says how long each took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder that holds runs")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args(words)
    catalog = load_catalog()
    for op in given.ops or list(catalog.ops):
        begin_s = time.monotonic()
        rounds = 6 if given.smoke else ROUNDS
        command = ["run", "--op", op, "--kernel", ",".join(kernels_of(op)), "--rounds", str(rounds)]
        command += ["--processes", str(PROCESSES), "--label", "processes", "--out", str(given.out), "--quiet"]
        for shape in shapes_of(op):
            command += ["--shape", shape]
        ended = subprocess.run([sys.executable, "-m", "gdnbench", *command], check=False, stdout=subprocess.PIPE)
        sys.stdout.write(f"{op}: exit {ended.returncode}, {time.monotonic() - begin_s:.0f} s\n")
        if ended.returncode not in {0, 8} or given.smoke:
            sys.stdout.buffer.write(ended.stdout)
        sys.stdout.flush()
        if given.smoke and ended.returncode:
            raise SystemExit(ended.returncode)


def kernels_of(op: str) -> list[str]:
    """What is compiled, and the libraries' kernels; eager torch takes too long."""
    entries = [entry for entry in load_catalog().entries.values() if entry.op.name == op and not entry.kernel.floor]
    compiled = [entry.kernel.name for entry in entries if not isinstance(entry.kernel, TorchKernel)]
    libraries = [name for name in entries[0].op.baselines if not name.endswith(SLOW)]
    return [*compiled, *(name for name in libraries if not load_catalog().entries[name].missing())]


def shapes_of(op: str) -> list[str]:
    """Workloads of the default suite that differ from its first along the axis of charts alone, as words."""
    first, *others = load_catalog().ops[op].suite("default").workloads
    alike = [each for each in others if each.series == first.series][: MOST_WORKLOADS - 1]
    values = ",".join([first.x_value, *(each.x_value for each in alike)])
    return [f"{first.spec.x}={values}" if word == first.x_term else word for word in first.options[1::2]]


if __name__ == "__main__":
    main()
