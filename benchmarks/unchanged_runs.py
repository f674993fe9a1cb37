"""How true `gdnbench compare` is of runs between which nobody changed a kernel, over processes, cards and hosts.

`unchanged-runs.csv` holds 36 runs of the same seven kernels on nine H200 cards of three hosts and on an H100, a row for
each case and timer: its mean and standard deviation over rounds. Every pair of H200 runs is compared; each FASTER or
SLOWER is a false claim. Prints a table and ends with 1 where a limit is missed. Takes about a minute; `--every 10`
takes each tenth pair.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median

import numpy as np

from gdnbench.analyse.comparison import compare_sources
from gdnbench.analyse.figure import Figure, FigureSource, KernelTime, SourceKind
from gdnbench.analyse.ratio import CompareSettings
from gdnbench.analyse.run_change import RunPair
from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.declaration import Params
from gdnbench.model.op import Op
from gdnbench.model.status import Role
from gdnbench.stats import FloatArray
from gdnbench.stats.interval import Verdict

DATA = Path(__file__).with_name("unchanged-runs.csv")
LEAST_COVERED = 0.93
MARGIN, CONFIDENCE = 0.005, 0.95
CLAIMS = {Verdict.FASTER, Verdict.SLOWER}
KERNEL_TIME = "cupti"

_Row = dict[str, str]


@dataclass
class Tally:
    """What pairs of runs said of kernels that nobody changed.

    Attributes:
        covered: for each, whether its own 95 % interval holds "no difference".
        single: half-width of that interval, relative.
        printed: half-width as `compare` prints it, with Holm's correction.
        claims: the false ones.
    """

    covered: list[bool] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    printed: list[float] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)


def load_sources(path: Path = DATA) -> list[FigureSource]:
    """The runs, oldest first. Rounds are made to have the mean and the standard deviation that were recorded."""
    runs: dict[str, list[_Row]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            runs[row["run"]].append(row)
    return [_source(name, rows) for name, rows in runs.items()]


def _source(name: str, rows: Sequence[_Row]) -> FigureSource:
    kernel_times = {_case(row): row for row in rows if row["timer"] == KERNEL_TIME}
    figures = [_figure(row, kernel_times.get(_case(row))) for row in rows if row["timer"] != KERNEL_TIME]
    return FigureSource(
        name=name,
        kind=SourceKind.MEASURED,
        gpu=rows[0]["gpu"],
        figures=tuple(figures),
        conditions={"GPU": rows[0]["card"], "host": rows[0]["host"]},
    )


def _case(row: _Row) -> tuple[str, str]:
    return row["label"], row["B"]


@cache
def _decode() -> Op:
    return load_catalog().ops["decode"]


def _figure(row: _Row, kernel_time: _Row | None) -> Figure:
    workload = _decode().workloads.workload({"B": int(row["B"])})
    kernel = KernelTime(time_us=float(kernel_time["mean_us"]), rounds_us=_rounds(kernel_time)) if kernel_time else None
    return Figure(
        op="decode",
        kernel=row["label"].partition(":")[0],
        label=row["label"],
        params=Params({"": row["params"]}) if row["params"] else Params(),
        workload=workload,
        timer=row["timer"],
        role=Role(row["role"]),
        time_us=float(row["mean_us"]),
        rounds_us=_rounds(row),
        kernel_time=kernel,
        launches=int(row["launches"]),
        nbytes=int(row["bytes"]),
        source_hash=row["source"],
    )


def _rounds(row: _Row) -> FloatArray:
    """As many times as there were rounds, with their mean and sample standard deviation."""
    steps = np.linspace(-1.0, 1.0, int(row["rounds"]))
    times: FloatArray = float(row["mean_us"]) + float(row["sd_us"]) * steps / np.std(steps, ddof=1)
    return times


def tally(sources: Sequence[FigureSource], every: int = 1) -> dict[tuple[str, int, str], Tally]:
    """What every n-th pair of runs on one GPU model says, by hosts, batch and kind of time."""
    found: dict[tuple[str, int, str], Tally] = defaultdict(Tally)
    for left, right in list(combinations(sources, 2))[::every]:
        if left.gpu != right.gpu:
            continue
        hosts = "one" if left.conditions["host"] == right.conditions["host"] else "two"
        for (batch, kind), covered, single, printed, claim in _judged(left, right):
            group = found[hosts, batch, kind]
            group.covered.append(covered)
            group.single.append(single)
            group.printed.append(printed)
            group.claims += [claim] if claim else []
    return found


def _judged(left: FigureSource, right: FigureSource) -> Iterator[tuple[tuple[int, str], bool, float, float, str]]:
    settings = CompareSettings(margin=MARGIN, confidence=CONFIDENCE)
    side = compare_sources([left, right], rows="", columns="", filtered="", settings=settings)
    runs = RunPair(left, right)
    for row, ratio in zip(side.grid.rows, side.columns[0].ratios, strict=True):
        one, other = (entry.figure for entry in row.entries if entry)
        if one.role is Role.FLOOR or ratio is None or ratio.comparison is None:
            continue
        change = runs.change(one, other, ratio.kind)
        assert change
        half = change.half_width(CONFIDENCE)
        claim = f"{left.name} | {right.name}: {one.label}" if ratio.comparison.verdict in CLAIMS else ""
        where = int(one.workload.cells["B"]), ratio.kind.value
        yield where, abs(change.mean) <= half, half, ratio.comparison.speedup.half_width, claim


def main() -> int:
    """Prints the table; 1 where too few are covered, or something is claimed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="compare each n-th pair of runs")
    found = tally(load_sources(), parser.parse_args().every)
    print(f"{'hosts':6}{'B':>4}  {'clock':8}{'cases':>6}{'covered':>9}{'one ±':>8}{'printed ±':>11}{'claims':>8}")
    for (hosts, batch, kind), group in sorted(found.items()):
        covered, single, printed = np.mean(group.covered), median(group.single), median(group.printed)
        print(
            f"{hosts:6}{batch:4}  {kind:8}{len(group.covered):6}{covered:9.1%}{single:8.2%}{printed:11.2%}"
            f"{len(group.claims):8}"
        )
    everything = [each for group in found.values() for each in group.covered]
    claims = [claim for group in found.values() for claim in group.claims]
    print(f"{np.mean(everything):.1%} of {len(everything)} are covered, {len(claims)} false claims")
    print(*claims, sep="\n", end="")
    return int(float(np.mean(everything)) < LEAST_COVERED or bool(claims))


if __name__ == "__main__":
    sys.exit(main())
