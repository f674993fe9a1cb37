"""Do kernels that reach into their process change the figures of others? Honest kernels, without them and beside them.

Prints each honest kernel's ratio to the baseline and its time over the copying floor's in both runs, and by how much
they differ. `--out` keeps the runs. Takes about two minutes on a GPU, by NVBench alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gdnbench.model.status import Role
from gdnbench.render.console import data_console, plain_table
from gdnbench.store.find import find_run
from gdnbench.store.measurements import read_measurements

CHEATS = Path(__file__).parents[1] / "tests" / "adversarial" / "apart"
HONEST = ("decode-v9", "decode-v8", "decode-triton-one")
HOWS = ("reader", "instances", "launch")
LIMIT = 0.005


def main(words: Sequence[str] | None = None) -> None:
    """Measures twice, prints a row for each honest kernel and workload, and ends with 1 if one differs by 0.5 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder that holds runs")
    out = parser.parse_args(words).out
    beside = [f"test-reaches-others:HOW={how}" for how in HOWS]
    found = [
        _figures(_measure(out, label, [*HONEST, *more])) for label, more in (("alone", ()), ("beside-cheats", beside))
    ]
    table = plain_table()
    for title in ("kernel", "alone", "beside", "differs", "of the copy, alone", "beside", "differs"):
        table.add_column(title, justify="right")
    worst = 0.0
    for name, (alone, other) in {name: (found[0][name], found[1][name]) for name in found[0]}.items():
        by = [after / before - 1.0 for before, after in zip(alone, other, strict=True)]
        worst = max(worst, abs(by[0]))
        table.add_row(
            name,
            f"{alone[0]:.3f}x",
            f"{other[0]:.3f}x",
            f"{by[0]:+.2%}",
            f"{alone[1]:.3f}",
            f"{other[1]:.3f}",
            f"{by[1]:+.2%}",
        )
    data_console().print(table, f"ratios differ by at most {worst:.2%}; the limit is {LIMIT:.1%}", sep="\n")
    raise SystemExit(worst > LIMIT)


def _measure(out: Path, label: str, kernels: Sequence[str]) -> Path:
    options = ["--shape", "B=1,8", "--rounds", "24", "--processes", "3", "--timer", "nvbench", "--quiet"]
    command = ["run", "--kernel", ",".join(kernels), "--baseline", "decode-fla", "--label", label, "--out", str(out)]
    environment = {**os.environ, "GDNBENCH_KERNELS": str(CHEATS), "PYTHONPATH": _path()}
    subprocess.run([sys.executable, "-m", "gdnbench", *command, *options], check=False, env=environment)
    return find_run(out, label)


def _path() -> str:
    return os.pathsep.join([str(CHEATS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])


def _figures(run: Path) -> dict[str, tuple[float, float]]:
    """By kernel and workload: the ratio to the baseline, and the time over the floor's."""
    rows = [row for row in read_measurements(run) if row.timing]
    floors = {
        row.case.workload: row.timing.time_us for row in rows if row.role is Role.FLOOR and row.nbytes and row.timing
    }
    return {
        f"{row.case.label} {row.case.workload}": (row.versus.speedup, row.timing.time_us / floors[row.case.workload])
        for row in rows
        if row.case.label in HONEST and row.timing and row.versus
    }


if __name__ == "__main__":
    main()
