"""How true is `gdnbench compare` of the stored runs: kernels of the same sources in two of them, by op and timer.

Every pair of runs of one op on one GPU model is compared, of decode each `--every`-th. A kernel whose sources are equal
in both did not change: its interval, at 95 % and for it alone, holds "no difference" or not, and a FASTER or SLOWER is
false. Left out are pairs of which one alone is `--plain`, what torch.compile makes, whose code it chooses in each
process, and kernels for which a tuner chose other code or may have. Prints a row for each op and kind of time, then the
false claims; ends with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median

from gdnbench.analyse.comparison import compare_sources
from gdnbench.analyse.ratio import CompareSettings
from gdnbench.analyse.run_change import RunPair
from gdnbench.analyse.runs import StoredRun, load_stored_runs
from gdnbench.errors import UsageError
from gdnbench.model.case import same_sources
from gdnbench.model.status import Role
from gdnbench.render.console import data_console, plain_table
from gdnbench.stats.interval import Verdict

LEAST_COVERED = 0.93
MARGIN, CONFIDENCE = 0.005, 0.95
COMPILED = "-compiled"  # ends the names of kernels through torch.compile
CLAIMS = {Verdict.FASTER, Verdict.SLOWER}
RESULTS = Path(__file__).parents[1] / "results" / "evidence"
_Judged = tuple[str, bool, float, str]
"""The kind of time, whether the interval holds no difference, half its width, and the false claim, if it is one."""


@dataclass
class Tally:
    """What pairs of runs said of kernels that nobody changed."""

    covered: list[bool] = field(default_factory=list)
    half_widths: list[float] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)


def main(words: Sequence[str] | None = None) -> int:
    """Prints the table; 1 where too few are covered, or something is claimed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, help="the folder that holds runs")
    parser.add_argument("--every", type=int, default=10, help="of decode's pairs compare each n-th")
    given = parser.parse_args(words)
    found: dict[tuple[str, str], Tally] = defaultdict(Tally)
    runs = load_stored_runs(given.results)
    tuned = {figure.kernel for run in runs for figure in run.source.figures if figure.tuned}
    for op, left, right in pairs_of(runs, given.every):
        for kind, covered, half_width, claim in judged(left, right, tuned):
            group = found[op, kind]
            group.covered.append(covered)
            group.half_widths.append(half_width)
            group.claims += [claim] if claim else []
    table = plain_table()
    for title in ("op", "time", "cases", "covered", "±", "claims"):
        table.add_column(title, justify="left" if title in {"op", "time"} else "right")
    for (op, kind), group in sorted(found.items()):
        count, share = len(group.covered), sum(group.covered) / len(group.covered)
        table.add_row(op, kind, str(count), f"{share:.1%}", f"{median(group.half_widths):.2%}", str(len(group.claims)))
    claims = [claim for group in found.values() for claim in group.claims]
    data_console().print(table, *claims, sep="\n")
    short = [key for key, group in found.items() if sum(group.covered) < LEAST_COVERED * len(group.covered)]
    return int(bool(short or claims))


def pairs_of(runs: Sequence[StoredRun], every: int) -> Iterator[tuple[str, StoredRun, StoredRun]]:
    """Pairs of whole runs of one op on one GPU model."""
    by_op: dict[tuple[str, str], list[StoredRun]] = defaultdict(list)
    for run in runs:
        by_op[run.op, run.source.gpu].append(run)
    for (op, _), of_op in by_op.items():
        for left, right in list(combinations(of_op, 2))[:: every if op == "decode" else 1]:
            if left.source.conditions.get("plain") == right.source.conditions.get("plain"):
                yield op, left, right


def judged(left: StoredRun, right: StoredRun, tuned: Collection[str]) -> Iterator[_Judged]:
    """Every kernel that both have with equal sources, and enough unchanged cases beside it for a verdict.

    Of the kernels in `tuned`, those for which both store a tuner's choice, and the same.
    """
    sources = [left.source, right.source]
    try:
        side = compare_sources(
            sources, rows="", columns="", filtered="", settings=CompareSettings(margin=MARGIN, confidence=CONFIDENCE)
        )
    except UsageError:  # no case in common
        return
    runs = RunPair(*sources)
    for row, ratio in zip(side.grid.rows, side.columns[0].ratios, strict=True):
        figures = [entry.figure for entry in row.entries if entry]
        if len(figures) < 2 or ratio is None or ratio.comparison is None or ratio.reason:
            continue
        one, other = figures
        if one.role is Role.FLOOR or one.kernel.endswith(COMPILED):
            continue
        if not one.source_hash or not same_sources(one.source_hash, other.source_hash):
            continue
        if one.is_tuned_otherwise(other) or (one.kernel in tuned and not one.tuned):
            continue
        if (change := runs.change(one, other, ratio.kind)) is None:
            continue
        half_width = change.half_width(CONFIDENCE)
        name = f"{left.source.name} | {right.source.name}: {one.label} {one.workload} {ratio.kind.value}"
        claim = f"{name} {ratio.comparison.verdict.value}" if ratio.comparison.verdict in CLAIMS else ""
        yield ratio.kind.value, abs(change.mean) <= half_width, half_width, claim


if __name__ == "__main__":
    sys.exit(main())
