"""The table of rungs in docs/claims.md: a row for each entry of the ledger in which the claims were written down.

python -m benchmarks.claims
"""

from __future__ import annotations

import sys
from pathlib import Path

from gdnbench.ledger.entry import EntryState, ExpectationResult, LedgerEntry
from gdnbench.ledger.file import read_ledger

GPUS = ("H100", "H200")
LEDGER = Path(__file__).parents[1] / "results" / "evidence" / "claims.jsonl"


def main() -> int:
    """Prints the table, as the page has it; returns 0."""
    print("\n".join(table(LEDGER)))
    return 0


def table(ledger: Path) -> list[str]:
    """The lines of a Markdown table: of each entry the claim, what was expected, what runs on each GPU say, and why."""
    rows = [
        f"| {entry.opened.id} | {entry.opened.hypothesis} | `{entry.opened.label}` | {_expected(entry)} "
        f"| {' | '.join(_outcome(entry, gpu) for gpu in GPUS)} | {entry.last.learned if entry.last else ''} |"
        for entry in read_ledger(ledger).values()
    ]
    return [f"| | claim | kernel | expected | {' | '.join(GPUS)} | why |", "|---|---|---|---|---|---|---|", *rows]


def _expected(entry: LedgerEntry) -> str:
    bounds = ", ".join(f"{each.sign} {each.bound:g}" for each in entry.opened.expectations)
    return f"{bounds} against `{entry.opened.expectations[0].baseline}`"


def _outcome(entry: LedgerEntry, gpu: str) -> str:
    """What the last run on a GPU model says; the name of a run has the model's."""
    closed = [each for each in entry.closings if f"-{gpu.lower()}-" in each.run]
    return f"{_measured(closed[-1].findings[0])} {EntryState(closed[-1].outcome)}" if closed else "not measured"


def _measured(found: ExpectationResult) -> str:
    if found.value is None or found.low is None or found.high is None:
        return found.reason
    return f"{found.value:.3f}x ±{50 * (found.high - found.low) / found.value:.2f} %"


if __name__ == "__main__":
    sys.exit(main())
