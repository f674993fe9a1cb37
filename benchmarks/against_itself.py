"""Are baselines as far from themselves as runs say? Of every stored run of several processes on a GPU, each workload.

A run measures its baseline twice. Prints by clock how many standard errors the two lie apart (root mean square; 1 where
runs know their noise), how often the 95 % interval of their ratio holds 1, and how many processes and cards that is of.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdnbench.model.status import Clock, Role
from gdnbench.render.console import data_console, plain_table
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, estimate_effects
from gdnbench.store.find import list_runs
from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_measurements
from gdnbench.store.samples import CaseRounds, read_case_rounds

RESULTS = Path(__file__).parents[1] / "results" / "evidence"
CONFIDENCE = 0.95
FEWEST_ROUNDS = 4  # Student's t of two degrees of freedom or less has no variance, and so no root mean square


@dataclass(frozen=True)
class Pair:
    """A baseline against itself.

    Attributes:
        clock: None for NVBench.
        z: how many standard errors apart.
        covered: whether the interval holds 1.
    """

    clock: Clock | None
    z: float
    covered: bool


def main(words: Sequence[str] | None = None) -> None:
    """Prints a row for each clock."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, help="the folder that holds runs")
    pairs: dict[Clock | None, list[Pair]] = defaultdict(list)
    processes, cards = 0, set[str]()
    for folder in list_runs(parser.parse_args(words).results):
        info = read_info(folder)
        count = int(info.settings.get("processes", 1))
        if count > 1 and info.on_gpu and not info.swept:
            found = list(pairs_of(folder))
            processes += count if found else 0
            cards |= {str((info.machine.get("gpu") or {}).get("uuid"))} if found else set()
            for pair in found:
                pairs[pair.clock].append(pair)
    table = plain_table()
    for title in ("clock", "workloads", "rms z", "covered"):
        table.add_column(title, justify="left" if title == "clock" else "right")
    for clock, found in pairs.items():
        z = math.sqrt(float(np.mean([pair.z**2 for pair in found])))
        held = sum(pair.covered for pair in found)
        table.add_row(clock or "nvbench", str(len(found)), f"{z:.2f}", f"{held} of {len(found)}")
    data_console().print(table)
    data_console().print(f"{processes} processes on {len(cards)} cards")


def pairs_of(folder: Path) -> Iterator[Pair]:
    """The baseline against itself at each workload of a run, by each of its clocks."""
    rows, rounds = read_measurements(folder), read_case_rounds(folder)
    empty = {row.case.id for row in rows if row.is_empty_floor}
    for clock in dict.fromkeys(clock for _, clock in rounds):
        for workload in dict.fromkeys(row.case.workload for row in rows):
            here = {
                row.case.id: (row.role, rounds[row.case.id, clock])
                for row in rows
                if row.case.workload == workload and (row.case.id, clock) in rounds
            }
            sides = [
                case_id for role in (Role.CONTROL, Role.BASELINE) for case_id, (own, _) in here.items() if own is role
            ]
            if len(sides) == 2 and np.isfinite(here[sides[0]][1].times_us).sum() >= FEWEST_ROUNDS:
                yield _pair({case_id: found for case_id, (_, found) in here.items()}, sides, empty, clock)


def _pair(here: dict[str, CaseRounds], sides: Sequence[str], empty: set[str], clock: Clock | None) -> Pair:
    control, baseline = sides
    effects = estimate_effects(
        {case_id: found.times_us for case_id, found in here.items()},
        here[baseline].processes,
        left_out=empty & here.keys(),
        has_launch=clock is None,
        usual_sd_us=USUAL_LAUNCH_SD_US,
    )
    times = tuple(effects.without_launch(here[each].times_us) for each in (control, baseline))
    between = effects.of_ratio((control, baseline), (times[0], times[1]))
    ratio = PairedLogRatio.from_rounds(times[0], times[1], effects.process, between)
    interval = ratio.speedup(CONFIDENCE)
    return Pair(clock, ratio.mean / math.sqrt(ratio.variance.value), interval.low <= 1 <= interval.high)


if __name__ == "__main__":
    main()
