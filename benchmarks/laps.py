"""Are launches slower the first time that a round times their placement than the second time?

`python -m benchmarks.laps RUN` reads the samples of a run of `--samples 64`, two for each of a round's 32 placements,
and prints for each case and timer by how much the first 32 of a round exceed the others, in per cent, with the 95 %
interval over rounds. `laps.csv` has what H200s gave, by what came before a round's samples: 33 launches of the timer's
own, or a lap that launched once at each placement, flushed or not, and then three of the timer's own. Today NVBench has
the first, and CUPTI a lap and one flushed launch (the last twelve rows).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from gdnbench.model.status import Clock
from gdnbench.stats.estimators import trimmed_mean
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.store.samples import samples_name
from gdnbench.store.settings import GPU_TRIM
from gdnbench.workers.task import MOST_PLACEMENTS

TIMERS: tuple[tuple[str, Clock | None], ...] = (("nvbench", None), ("cupti", "cupti"))


def main() -> None:
    """Prints CSV: a row for each timer and case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="its folder, with samples")
    run = parser.parse_args().run
    print("case,timer,rounds,time_us,first_lap_percent,half_width_percent")
    for timer, clock in TIMERS:
        if not (path := run / samples_name(clock)).exists():
            continue
        samples = pd.read_parquet(path).astype({"case": str})
        samples["lap"] = samples.groupby(["case", "round"]).cumcount() // MOST_PLACEMENTS
        by_round = samples.groupby(["case", "lap", "round"])["time_us"]
        times = by_round.apply(lambda each: trimmed_mean(each.to_numpy(dtype=float), GPU_TRIM)).unstack()
        for case in times.index.unique("case"):
            first, second = (times.loc[case, lap].dropna().to_numpy() for lap in (0, 1))
            slower = PairedLogRatio.from_rounds(second, first).speedup(0.95)
            low, mid, high = (100 * (each - 1) for each in (slower.low, slower.estimate, slower.high))
            print(f"{case},{timer},{len(second)},{np.mean(second):.4g},{mid:.2f},{(high - low) / 2:.2f}")


if __name__ == "__main__":
    main()
