"""What does a process add to the ratio of two kernels? Of every stored run of several processes on a GPU, by op.

Prints how far the processes' mean log-ratios to the baseline lie about their run's, as a standard deviation in per
cent, and how much of that the noise of rounds and, by NVBench, a launch that differs from process to process explain.
What is left is what a run of a single process does not show: `Op.process_sd`, over the root of 2 for kernels of one
launch, and as it is for one of several launches beside one of a single launch. Chains of launches stand apart, and so
does a chain beside a chain, whose processes favour both alike where they are the same code.
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
from gdnbench.render.console import data_console, plain_table
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, process_means, within_sd
from gdnbench.store.find import list_runs
from gdnbench.store.info import RunInfo, is_step, read_info
from gdnbench.store.measurements import read_by_clock
from gdnbench.store.samples import CaseRounds, read_case_rounds

RESULTS = Path(__file__).parents[1] / "results" / "evidence"
FEWEST_PROCESSES = 3
KINDS = ("one launch each", "one and several", "several each")

_Group = tuple[str, str, str]
"""The op, the timer, and how many launches the two kernels have."""


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
    """Prints a row for each op, timer and kind of pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, help="the folder that holds runs")
    found: dict[_Group, list[Spread]] = defaultdict(list)
    runs = 0
    for folder in list_runs(parser.parse_args(words).results):
        info = read_info(folder)
        if not info.on_gpu or info.swept or is_step(folder) or _processes(info) < FEWEST_PROCESSES:
            continue
        spreads = list(spreads_of(folder, info.op))
        runs += bool(spreads)
        for group, spread in spreads:
            found[group].append(spread)
    table = plain_table()
    for title in ("op", "timer", "launches"):
        table.add_column(title)
    for title in ("df", "SD, %", "rounds", "launch", "left"):
        table.add_column(title, justify="right")
    for group in sorted(found):
        table.add_row(*group, *_cells(found[group]))
    data_console().print(table, f"{runs} runs; each kernel to its baseline", sep="\n")


def _processes(info: RunInfo) -> int:
    return int(info.settings.get("processes", 1))


def spreads_of(folder: Path, op: str) -> Iterator[tuple[_Group, Spread]]:
    """Each kernel to the baseline of its workload, by each timer."""
    rounds = read_case_rounds(folder)
    for clock, rows in read_by_clock(folder).items():
        timed = [row for row in rows if row.timing]
        baselines = {row.case.workload: row for row in timed if row.role is Role.BASELINE}
        for row in timed:
            baseline = baselines.get(row.case.workload)
            if baseline is None or row.role is Role.BASELINE or row.is_empty_floor:
                continue
            pair = [rounds.get((each.case.id, clock)) for each in (row, baseline)]
            if pair[0] and pair[1] and (spread := _spread(pair[0], pair[1], has_launch=clock is None)):
                yield (op, clock or "nvbench", KINDS[_chains(row, baseline)]), spread


def _chains(*rows: Measurement) -> int:
    return sum(row.launches > 1 for row in rows)


def _spread(kernel: CaseRounds, baseline: CaseRounds, *, has_launch: bool) -> Spread | None:
    times = [each.times_us for each in (kernel, baseline)]
    both = np.isfinite(times[0]) & np.isfinite(times[1])
    logs, numbers = np.log(times[1][both] / times[0][both]), baseline.processes[both]
    known, process = np.unique(numbers, return_inverse=True)
    if len(known) < FEWEST_PROCESSES:
        return None
    sd, df = within_sd(logs, process)
    if df < len(known):
        return None
    means = process_means(logs, process, len(known))
    per_us = 1.0 / float(np.mean(times[0][both])) - 1.0 / float(np.mean(times[1][both]))
    explained = sd**2 * float(np.mean(1.0 / np.bincount(process)))
    launch = (per_us * USUAL_LAUNCH_SD_US) ** 2 if has_launch else 0.0
    return Spread(float(np.var(means, ddof=1)), explained, launch, len(known) - 1)


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
