"""The pilot: which chains of additions cost what is wanted here, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.analyse.analysis import Analysis
from gdnbench.calibrate.measure import Chains, chain_of, choose_chains
from gdnbench.model.workload import Workload

TARGETS = (0.003, 0.007, 0.02)
"""Of calibrate's: below gdnbench's margin of 0.5 %, just above it, and well above."""


@dataclass(frozen=True)
class Planted:
    """What B is at a workload.

    Attributes:
        workload: where, in words.
        target: the slowdown that was wanted, relative; 0 for an equal kernel.
        chain: the additions planted for it.
        slowdown: what the pilot says that they cost, relative.
        low: lower end of the pilot's interval.
        high: upper end; infinite where the pilot gives none.
    """

    workload: str
    target: float
    chain: int = 0
    slowdown: float = 0.0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Rung:
    """A chain that the pilot measured: its additions, what they cost, and the interval of that."""

    chain: int
    slowdown: float
    low: float
    high: float


def wanted_chains(pilot: Analysis) -> dict[Workload, dict[int, float]]:
    """The chains that `gdnbench doctor --calibrate` would choose, of this benchmark's slowdowns alone.

    Raises:
        MachineError: if a chain of the pilot has no time.
    """
    chosen: Chains = choose_chains(pilot)
    return {
        workload: {chain: target for chain, target in lengths.items() if target in TARGETS}
        for workload, lengths in chosen.items()
    }


def describe_planted(pilot: Analysis, chains: Chains) -> list[Planted]:
    """What is planted at each workload, the equal kernel first.

    Args:
        pilot: the pilot's rows.
        chains: what was chosen.
    """
    ladders: dict[Workload, list[Rung]] = {}
    for row in pilot.measurements:
        if chain_of(row.case) and row.versus:
            rung = Rung(chain_of(row.case), *_slowdowns(row.versus.speedup, row.versus.high, row.versus.low))
            ladders.setdefault(row.case.workload, []).append(rung)
    return [
        planted
        for workload, lengths in chains.items()
        for planted in (Planted(str(workload), 0.0), *_planted_at(str(workload), lengths, ladders[workload]))
    ]


def _slowdowns(*speedups: float) -> list[float]:
    return [1.0 / speedup - 1.0 if speedup > 0 else math.inf for speedup in speedups]


def _planted_at(workload: str, lengths: Mapping[int, float], ladder: Sequence[Rung]) -> list[Planted]:
    return [Planted(workload, target, chain, *cost_of(chain, ladder)) for chain, target in lengths.items()]


def cost_of(chain: int, ladder: Sequence[Rung]) -> tuple[float, float, float]:
    """What a chain costs, with its interval, by the rungs around it and straight lines between them.

    As calibrate reads the ladder: a longer chain costs no less, and none costs nothing.

    Args:
        chain: the additions; beyond the longest rung it costs what that one does.
        ladder: the pilot's rungs, in any order.
    """
    rungs = sorted(ladder, key=lambda rung: rung.chain)
    lengths = [0, *(rung.chain for rung in rungs)]

    def between(costs: Sequence[float]) -> float:
        return float(np.interp(chain, lengths, np.maximum.accumulate([0.0, *costs])))

    slowdown = between([rung.slowdown for rung in rungs])
    low, high = between([rung.low for rung in rungs]), between([rung.high for rung in rungs])
    return slowdown, min(low, slowdown), max(high, slowdown)
