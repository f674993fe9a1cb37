"""What a rule has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Number = int | float
Basis = Literal["counters", "times", "code"]
"""What a share rests on: counters of a profile, times of a run, or a bound that follows from the code alone."""


@dataclass(frozen=True)
class Fact:
    """One line of evidence.

    Attributes:
        counter: where the value stands: a key of `gdnbench ncu` or `gdnbench inspect`, or a counter of ncu's.
        title: what a table calls it.
        value: the value.
        unit: `%`, `µs`; empty for a count.
        note: what it says of this kernel, in a few words.
    """

    counter: str
    title: str
    value: Number
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """What to try next.

    Attributes:
        command: a line that runs as it stands, word by word.
        why: what it will tell, or what to change before it is run again.
    """

    command: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Finding:
    """A cause of the kernel's time.

    Attributes:
        rule: the rule's name, that of its function.
        title: the cause, in a few words.
        share: the share of the kernel's time that it explains, 0 to 1; findings are ranked by it.
        basis: what the share rests on.
        facts: the evidence.
        meaning: what it means for this kernel.
        experiment: what to try.
    """

    rule: str
    title: str
    share: float
    basis: Basis
    facts: tuple[Fact, ...]
    meaning: str
    experiment: Experiment
