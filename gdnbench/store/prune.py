"""Which stored runs may go, by what they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gdnbench.errors import UsageError
from gdnbench.store.overview import Overview, State

_AGE = re.compile(r"(?P<count>\d+(?:\.\d+)?)(?P<unit>[smhdw])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to go: all of it must hold.

    Attributes:
        older_s: begun so many seconds ago or earlier; None for any age.
        keep: all but so many, the newest of each GPU, op and label; None for no such limit.
        gpu: on this GPU; empty for any.
        stopped: only those that were stopped.
        damaged: only those that cannot be read.

    Raises:
        UsageError: if nothing is said, which would mean all of them.
    """

    older_s: float | None = None
    keep: int | None = None
    gpu: str = ""
    stopped: bool = False
    damaged: bool = False

    def __post_init__(self) -> None:
        if self.older_s is None and self.keep is None and not (self.gpu or self.stopped or self.damaged):
            raise UsageError("prune needs to know what may go", "as in gdnbench runs prune --stopped --older 7d")


def parse_age(text: str) -> float | None:
    """Seconds of `90s`, `12h`, `30d`, `2w`; None for nothing.

    Raises:
        UsageError: for anything else.
    """
    found = _AGE.fullmatch(text.strip())
    if not text:
        return None
    if not found:
        raise UsageError(f"--older {text}: not an age", "write 30d, 12h or 2w")
    return float(found["count"]) * _UNITS_S[found["unit"]]


def choose_pruned(runs: Sequence[Overview], wanted: Wanted) -> list[Overview]:
    """Those of some runs, newest first, that may go; one that is being measured stays.

    The age of a damaged run is not known: where an age is asked for, it stays.
    """
    fitting = [run for run in runs if _fits(run, wanted)]
    if wanted.keep is None:
        return fitting
    seen: Counter[tuple[str, str, str]] = Counter()
    chosen = []
    for run in fitting:
        key = (run.gpu, run.op, run.label)
        seen[key] += 1
        if seen[key] > wanted.keep:
            chosen.append(run)
    return chosen


def _fits(run: Overview, wanted: Wanted) -> bool:
    if run.state is State.MEASURING:
        return False
    return (
        (not wanted.gpu or run.gpu == wanted.gpu.lower())
        and (not wanted.stopped or run.state is State.STOPPED)
        and (not wanted.damaged or run.state is State.DAMAGED)
        and (wanted.older_s is None or _is_older(run, wanted.older_s))
    )


def _is_older(run: Overview, seconds: float) -> bool:
    try:
        began = datetime.fromisoformat(run.timestamp)
    except ValueError:
        return False
    began = began if began.tzinfo else began.replace(tzinfo=UTC)
    return datetime.now(UTC) - began >= timedelta(seconds=seconds)
