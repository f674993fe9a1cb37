"""The table of results: counts of lines, by tool and rule, for each workload; on a terminal or in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from gdnbench.render.console import plain_table
from gdnbench.stats.variance import share_of, sharing_design_effect
from gdnbench.wording import plural

from .facts import Facts
from .peers import PEERS
from .pilot import TARGETS
from .records import Line
from .rules import Outcome

HEADINGS = ("tool", "decided by", "A/A wrong", *(f"{target:.1%}" for target in TARGETS), "s/trial", "trials")
NONE = "-"


@dataclass(frozen=True)
class Counts:
    """The outcomes of comparisons that are alike.

    Attributes:
        right: verdicts that are.
        wrong: likewise.
        undecided: no verdict.
        failed: the tool gave none.
        alike: comparisons of a trial, which share their measurement of A.
    """

    right: int
    wrong: int
    undecided: int
    failed: int
    alike: int = 1

    @property
    def total(self) -> int:
        """Comparisons that have an outcome."""
        return self.right + self.wrong + self.undecided

    @property
    def cell(self) -> str:
        """`right/wrong/undecided`."""
        return f"{self.right}/{self.wrong}/{self.undecided}" if self.total else NONE

    @property
    def claims_cell(self) -> str:
        """Of equal kernels: the wrong claims, of how many, and how many percent they may be (95 %)."""
        if not self.total:
            return NONE
        share = share_of(self.wrong, self.total, design_effect=sharing_design_effect(self.alike))
        return f"{self.wrong} of {self.total} (≤ {share.high:.0%})"


def count(lines: Sequence[Line]) -> Counts:
    """Counts the outcomes of lines."""
    found = Counter(line.outcome for line in lines)
    alike = max(Counter((line.gpu, line.trial) for line in lines).values(), default=1)
    right, wrong, undecided, failed = (found[outcome] for outcome in Outcome)
    return Counts(right, wrong, undecided, failed, alike)


def table_rows(lines: Sequence[Line], workload: str) -> Iterator[tuple[str, ...]]:
    """The rows of a workload: each tool by each of its rules, in the order of the registry.

    Args:
        lines: of every record.
        workload: which.
    """
    here = [line for line in lines if line.workload == workload]
    for peer in PEERS.values():
        for rule in peer.rules:
            own = [line for line in here if (line.peer, line.rule) == (peer.name, rule)]
            if own:
                yield peer.title, rule, *_cells(own)


def _cells(own: Sequence[Line]) -> tuple[str, ...]:
    trials = {(line.gpu, line.trial): line.seconds for line in own}
    return (
        count([line for line in own if not line.target]).claims_cell,
        *(count([line for line in own if line.target == target]).cell for target in TARGETS),
        f"{sum(trials.values()) / len(trials):.1f}",
        str(len(trials)),
    )


LEGEND = (
    "A/A wrong: equal kernels called different (the upper end of the share's 95 % interval).",
    "0.3 %, 0.7 %, 2 %: a planted slowdown, right/wrong/undecided.",
    "s/trial: what a trial takes with this tool alone: its process's start, and every kernel at every workload.",
    "The comparisons of a trial share their measurement of A.",
)


def notes(lines: Sequence[Line], facts: Sequence[Facts]) -> Iterator[str]:
    """What stands below the tables: what was planted, what failed or is missing, and where it was measured."""
    for names in sorted({each.names for each in facts}):
        yield f"A run of gdnbench has each kernel under {plural(names, 'name')}, each of which is a comparison."
    for each in facts:
        yield from _planted_notes(each)
    failures = [line for line in lines if line.outcome is Outcome.FAILED]
    for title, number in Counter(PEERS[line.peer].title for line in failures).items():
        reason = next(each.reason for each in failures if PEERS[each.peer].title == title)
        yield f"{title}: {plural(number, 'comparison')} without a verdict, the first: {reason}"
    tried = {line.peer for line in lines}
    missing = {name: why for each in facts for name, why in each.missing.items() if name not in tried}
    for name, why in missing.items():
        yield f"{PEERS[name].title}: {why}"
    for each in facts:
        yield _where(each)


def _planted_notes(facts: Facts) -> Iterator[str]:
    for workload in dict.fromkeys(each.workload for each in facts.planted):
        planted = [each for each in facts.planted if each.workload == workload and each.target]
        told = (f"{each.chain} for {each.slowdown:.2%} ({each.low:.2%} to {each.high:.2%})" for each in planted)
        yield f"additions planted at {workload}: {', '.join(told)}"


def _where(facts: Facts) -> str:
    gpu, versions = facts.machine.get("gpu") or {}, facts.machine.get("versions") or {}
    known = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return f"{gpu.get('name')} ({facts.gpu}), driver {gpu.get('driver')}, {facts.began}; {known}"


def _workloads(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.workload for line in lines))


def print_tables(console: Console, lines: Sequence[Line], facts: Sequence[Facts]) -> None:
    """Prints a table for each workload, and the notes."""
    for workload in _workloads(lines):
        console.print(Text(workload, style="bold"))
        table = plain_table()
        for heading in HEADINGS[:2]:
            table.add_column(heading, overflow="fold")
        for heading in HEADINGS[2:]:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in table_rows(lines, workload):
            table.add_row(*row)
        console.print(table)
        console.print()
    for line in (*LEGEND, *notes(lines, facts)):
        console.print(Text(line, style="dim"), soft_wrap=True)


def markdown(lines: Sequence[Line], facts: Sequence[Facts]) -> str:
    """The same as Markdown."""
    parts = []
    for workload in _workloads(lines):
        head = ["", f"**{workload}**", "", _row(HEADINGS), _row(["---"] * 2 + ["---:"] * (len(HEADINGS) - 2))]
        parts += [*head, *(_row(row) for row in table_rows(lines, workload))]
    parts += ["", *(f"- {line}" for line in (*LEGEND, *notes(lines, facts)))]
    return "\n".join(parts).strip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
