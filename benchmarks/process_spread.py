"""What does a process add to the ratio of two kernels? Of every stored run of several processes on a GPU, by NVBench.

Prints, by how long the baseline takes, how far the processes' mean log-ratios lie about their run's, as a standard
deviation in per cent, and how much of that the noise of rounds and a launch that differs from process to process
explain. What is left is what a run of a single process does not show, and `USUAL_OWN_SD` puts into its intervals.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.report.console import data_console, plain_table
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, process_means, within_sd
from gdnbench.store.find import list_runs
from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_measurements
from gdnbench.store.samples import CaseRounds, read_case_rounds

RESULTS = Path(__file__).parents[1] / "results"
CLASSES_US = (8.0, 30.0, math.inf)
"""Upper ends of the classes of the baseline's time."""


@dataclass(frozen=True)
class Spread:
    """Variances of the processes' means of one log-ratio, relative.

    Attributes:
        between: of the means.
        rounds: of the part that rounds explain.
        launch: of the part that the usual spread of launches explains.
        df: degrees of freedom.
    """

    between: float
    rounds: float
    launch: float
    df: int


def main(words: Sequence[str] | None = None) -> None:
    """Prints a row for each class of times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, help="the folder that holds runs")
    found: dict[float, list[Spread]] = defaultdict(list)
    runs = 0
    for folder in list_runs(parser.parse_args(words).results):
        info = read_info(folder)
        if info.on_gpu and not info.swept and int(info.settings.get("processes", 1)) > 2:
            spreads = list(spreads_of(folder))
            runs += bool(spreads)
            for time_us, spread in spreads:
                found[next(end for end in CLASSES_US if time_us <= end)].append(spread)
    table = plain_table()
    for title in ("baseline, µs", "df", "SD, %", "rounds", "launch", "left"):
        table.add_column(title, justify="right")
    for end in CLASSES_US:
        table.add_row(f"to {end:g}" if end < math.inf else "longer", *_cells(found[end]))
    table.add_row("all", *_cells([spread for spreads in found.values() for spread in spreads]))
    data_console().print(table, f"{runs} runs; kernels of one launch, each to its baseline", sep="\n")


def spreads_of(folder: Path) -> Iterator[tuple[float, Spread]]:
    """Each kernel of one launch to the baseline of its workload, that of one launch too: the baseline's time first."""
    rounds = {case: each for (case, clock), each in read_case_rounds(folder).items() if clock is None}
    rows = [row for row in read_measurements(folder) if row.clock is None and row.timing and row.launches == 1]
    baselines = {row.case.workload: row for row in rows if row.role is Role.BASELINE}
    for row in rows:
        baseline = baselines.get(row.case.workload)
        if baseline is None or row.role is Role.BASELINE or row.is_empty_floor:
            continue
        if {row.case.id, baseline.case.id} <= rounds.keys():
            spread = _spread(rounds[row.case.id], rounds[baseline.case.id])
            if spread:
                yield _time_us(baseline), spread


def _spread(kernel: CaseRounds, baseline: CaseRounds) -> Spread | None:
    times = [each.times_us for each in (kernel, baseline)]
    both = np.isfinite(times[0]) & np.isfinite(times[1])
    logs, numbers = np.log(times[1][both] / times[0][both]), baseline.processes[both]
    known, process = np.unique(numbers, return_inverse=True)
    if len(known) < 3:
        return None
    sd, df = within_sd(logs, process)
    if df < len(known):
        return None
    means = process_means(logs, process, len(known))
    per_us = 1.0 / float(np.mean(times[0][both])) - 1.0 / float(np.mean(times[1][both]))
    explained = sd**2 * float(np.mean(1.0 / np.bincount(process)))
    return Spread(float(np.var(means, ddof=1)), explained, (per_us * USUAL_LAUNCH_SD_US) ** 2, len(known) - 1)


def _time_us(row: Measurement) -> float:
    return row.timing.time_us if row.timing else math.nan


def _cells(spreads: Sequence[Spread]) -> tuple[str, ...]:
    if not spreads:
        return ("0", "", "", "", "")
    dfs = [spread.df for spread in spreads]
    between, rounds, launch = (
        float(np.average([getattr(spread, name) for spread in spreads], weights=dfs))
        for name in ("between", "rounds", "launch")
    )
    left = max(0.0, between - rounds - launch)
    return (str(sum(dfs)), *(f"{100 * math.sqrt(variance):.3f}" for variance in (between, rounds, launch, left)))


if __name__ == "__main__":
    main()
