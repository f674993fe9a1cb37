"""Which mean of a round's samples reads a kernel the same in every process?

Of the calibrations in `results/evidence/calibration` whose samples are kept, prints for each share that a mean leaves
out at either end by how much the slowdowns that were planted differ from process to process, beside what the noise of
their rounds explains. A mean under which processes differ no more than that adds nothing of its own.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.render.console import data_console, plain_table
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import trimmed_mean
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import process_means
from gdnbench.store.samples import SAMPLES, read_case_rounds
from gdnbench.store.settings import GPU_TRIM, INTERQUARTILE

if TYPE_CHECKING:
    import pandas as pd

RESULTS = Path(__file__).parents[1] / "results" / "evidence" / "calibration"
TRIMS = (INTERQUARTILE, 0.1, GPU_TRIM, 0.02, 0.0)
_PLANTED, _KERNEL = "decode-planted:CHAIN=", "decode-planted"

Spread = tuple[float, float]
"""Standard deviation between the processes of a slowdown, and of a process's mean by its rounds; relative."""


def main(words: Sequence[str] | None = None) -> None:
    """Prints a row for each workload and trim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=RESULTS, help="of calibrations")
    spreads: dict[tuple[str, float], list[Spread]] = defaultdict(list)
    for samples in sorted(parser.parse_args(words).folder.rglob(SAMPLES)):
        for key, spread in spreads_of(samples.parent):
            spreads[key].append(spread)
    table = plain_table()
    for title in ("workload", "left out at either end", "slowdowns", "between processes", "of that rounds explain"):
        table.add_column(title)
    for (workload, trim), found in sorted(spreads.items()):
        between, within = np.sqrt(np.mean(np.square(found), axis=0))
        table.add_row(workload, f"{trim:.0%}", str(len(found)), f"{between:.3%}", f"{within:.3%}")
    data_console().print(table)


def spreads_of(run: Path) -> Iterator[tuple[tuple[str, float], Spread]]:
    """Of every slowdown of a run and every trim; the key is the workload's and the trim.

    Args:
        run: its folder, with samples.
    """
    import pandas as pd

    samples = pd.read_parquet(run / SAMPLES, columns=["case", "round", "time_us"])
    processes = read_case_rounds(run)
    for trim in TRIMS:
        times = _round_times(samples, trim)
        for case in times.index:
            label, _, workload = case.partition("/")
            if label.startswith(_PLANTED):
                kernel, baseline = (times.loc[each].to_numpy() for each in (case, f"{_KERNEL}/{workload}"))
                number = processes[case, None].processes
                yield (workload, trim), _spread(kernel, baseline, np.unique(number, return_inverse=True)[1])


def _round_times(samples: pd.DataFrame, trim: float) -> pd.DataFrame:
    """Round times, a row for each case and a column for each round."""
    rounds = samples.groupby(["case", "round"], observed=True)["time_us"]
    return rounds.apply(lambda times: trimmed_mean(times.to_numpy(dtype=float), trim)).unstack()


def _spread(kernel: FloatArray, baseline: FloatArray, process: np.ndarray) -> Spread:
    count = int(process.max()) + 1
    means = process_means(np.log(kernel / baseline), process, count)
    within = PairedLogRatio.from_rounds(kernel, baseline, process).sd / np.sqrt(len(process) / count)
    return float(np.std(means, ddof=1)), float(within)


if __name__ == "__main__":
    main()
