"""`python -m benchmarks.gates [--out FOLDER]`: do honest kernels pass the gates, and do all others fail them?

Draws inputs as `gdnbench verify` does, on the CPU, and holds two kinds of decode steps against the op's gates: honest
ones, all of fp32, in the ways of this repository's kernels and FLA (`honest.py`), and such as have something wrong
(`mistakes.py`). Prints how near the former come to the limit, what a fit makes of that, and how far above it the latter
stay; with `--out`, writes both as CSV, too.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from gdnbench.model.workload import Shape, Workload

from .simulate import Findings, Simulation, decode_op, log10_chance_above, log10_of_sum

PLAN = (
    (Shape(B=1), 500),
    (Shape(B=1, HQ=1, HV=2), 1500),
    (Shape(B=3, HQ=2, HV=6), 100),
    (Shape(B=1, HQ=16, HV=32), 50),
    (Shape(B=8), 40),
    (Shape(B=64), 3),
)
"""Workloads, and how many verifications of each: every scenario once."""

Row = Mapping[str, object]


def main(words: Sequence[str] | None = None) -> None:
    """Simulates, and prints two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gates", description=__doc__)
    parser.add_argument("--out", type=Path, help="a folder for honest.csv and mistakes.csv")
    parser.add_argument("--share", type=float, default=1.0, help="of the planned verifications, at least two of each")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)  # its threads cost more than they give on tensors of this size
    honest: list[Row] = []
    mistakes: list[Row] = []
    for number, (shape, verifications) in enumerate(PLAN):
        workload = decode_op()[0].workload(shape)
        begun, simulation = time.monotonic(), Simulation(workload)
        for turn in range(max(2, round(arguments.share * verifications))):
            simulation.verify(arguments.seed + 1_000_000 * number + 10 * turn)
        honest += honest_rows(workload, simulation.findings)
        mistakes += mistake_rows(workload, simulation.findings)
        print(f"{workload}: {time.monotonic() - begun:.0f} s", flush=True)
        if arguments.out:
            write_csv(arguments.out / "honest.csv", honest)
            write_csv(arguments.out / "mistakes.csv", mistakes)
    for rows in (honest, mistakes):
        print_rows(rows)


def honest_rows(workload: Workload, findings: Findings) -> list[Row]:
    """A row for each variant and output: errors over limits by scenario, and the chance that a verification fails."""
    maxima: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(dict)
    for (variant, output, scenario), found in findings.honest.items():
        maxima[variant, output][scenario] = found
    return [
        {
            "workload": str(workload),
            "variant": variant,
            "output": output,
            "verifications": len(next(iter(found.values()))),
            "mean": f"{np.mean([np.mean(each) for each in found.values()]):.4f}",
            "sd": f"{np.mean([np.std(each, ddof=1) for each in found.values()]):.4f}",
            "largest": f"{max(max(each) for each in found.values()):.4f}",
            "log10_chance": f"{log10_of_sum(log10_chance_above(1.0, each) for each in found.values()):.1f}",
            "refused": findings.refused[variant],
        }
        for (variant, output), found in maxima.items()
    ]


def mistake_rows(workload: Workload, findings: Findings) -> list[Row]:
    """A row for each mistake: its smallest error over the limit, and how many verifications saw it."""
    found: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for (mistake, scenario), drawn in findings.mistakes.items():
        found[mistake][scenario] = drawn
    rows: list[Row] = []
    for mistake, errors in found.items():
        largest = np.max(list(errors.values()), axis=0)  # of the scenarios of a verification: one that fails is enough
        rows.append(
            {
                "workload": str(workload),
                "mistake": mistake,
                "verifications": len(largest),
                "refused": int((largest > 1).sum()),
                "smallest": f"{largest.min():.3g}",
                "median": f"{np.median(largest):.3g}",
                **{f"smallest {name}": f"{min(of_scenario):.3g}" for name, of_scenario in errors.items()},
            }
        )
    return rows


def print_rows(rows: Sequence[Row]) -> None:
    """Prints columns as wide as their widest cell."""
    names = list(rows[0])
    widths = [max(len(str(row[name])) for row in [*rows, dict(zip(names, names, strict=True))]) for name in names]
    for row in [dict(zip(names, names, strict=True)), *rows]:
        print("  ".join(str(row[name]).ljust(width) for name, width in zip(names, widths, strict=True)).rstrip())
    print()


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows of the same columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(next(iter(rows))), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
