"""How much is measured, in which order, and what is measured next."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeVar

from gdnbench.analyse.rounds import Collected
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.workers.task import GPU_SAMPLE_US, MOST_PLACED_BYTES, WARM_UPS, window_count, window_size

T = TypeVar("T")

GPU_ROUND_US = 25_000.0
GPU_STATE_US = 4_000.0  # NVBench's own time for each round of a case
CPU_CALLS_PER_SAMPLE = 3  # two to warm up
CPU_ROUND_US = 60_000.0
FEWEST_SAMPLES = {"cuda": 40, "cpu": 5}
LONGEST_CALL_US = {"cuda": 50.0, "cpu": CPU_ROUND_US / (CPU_CALLS_PER_SAMPLE * FEWEST_SAMPLES["cpu"])}
"""Longest call that a predicted time allows for; on a GPU most kernels here take less."""
WORKER_START_S = 6.0  # start of a worker: loading torch, binding every case
OWN_OUTPUTS = 2  # factor on the tensors: kernels that allocate their outputs get as many placements for them
ASIDE = 4  # further copies of the tensors: draws of the inputs, and the tensors of checked launches


def round_order(cases: Sequence[Case], rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """The ids of all cases for each round, by workload; workloads and their cases are shuffled anew in each round.

    The cases of a workload stay together, so that drift affects both of a pair, and none always follows another.
    """
    generator = random.Random(seed)
    groups: dict[Workload, list[str]] = {}
    for case in cases:
        groups.setdefault(case.workload, []).append(case.id)

    def shuffled(items: Sequence[T]) -> list[T]:
        return generator.sample(items, len(items))

    return tuple(
        tuple(chain.from_iterable(shuffled(ids) for ids in shuffled(list(groups.values())))) for _ in range(rounds)
    )


def memory_blocks(
    op: Op, cases: Sequence[Case], rounds: int, budget_bytes: int, placed_bytes: int
) -> tuple[tuple[Case, ...], ...]:
    """Splits the cases into blocks measured one after the other, each of as many workloads as fit into memory.

    The cases are ordered by workload, so that those which differ only in the profile, and share placements, are
    adjacent. The limits are of a block's tensors at all of their placements in a process's `rounds`, burn-in included
    (a workload that exceeds it is a block), and of one workload's.
    """
    blocks: list[list[Case]] = []
    left = 0
    for workload, group in groupby(cases, key=lambda case: case.workload.at("")):
        nbytes = placements_bytes(op.tensor_bytes(workload), rounds, placed_bytes)
        if not blocks or nbytes > left:
            blocks.append([])
            left = budget_bytes
        blocks[-1].extend(group)
        left -= nbytes
    return tuple(map(tuple, blocks))


def placements_bytes(tensor_bytes: int, rounds: int, most_bytes: int) -> int:
    """Memory of a workload's tensors at all placements, with the outputs that kernels allocate themselves.

    `most_bytes` limits the tensors without those outputs.
    """
    window = window_size(tensor_bytes)
    placements = window * window_count(tensor_bytes, window, rounds, most_bytes)
    return (OWN_OUTPUTS * placements + ASIDE) * tensor_bytes


def most_placed_bytes(budget_bytes: int) -> int:
    """Limit of the tensors of one workload, from the budget of a block."""
    return min(MOST_PLACED_BYTES, budget_bytes // (2 * OWN_OUTPUTS))


def sample_count(requested: int, warm_us: float, device: Device) -> int:
    """Samples per round: as many as requested, fewer if a round of a slow kernel would take too long."""
    if device == "cuda":
        affordable = GPU_ROUND_US / (GPU_SAMPLE_US + warm_us)
    else:
        affordable = CPU_ROUND_US / (CPU_CALLS_PER_SAMPLE * max(warm_us, 1.0))
    return min(requested, max(int(affordable), FEWEST_SAMPLES[device]))


def round_cost_s(samples: int, warm_us: float, device: Device) -> float:
    """Approximate time of a round of one case, in seconds."""
    if device == "cuda":
        return (GPU_STATE_US + (samples + WARM_UPS) * (GPU_SAMPLE_US + warm_us)) * 1e-6
    return samples * CPU_CALLS_PER_SAMPLE * warm_us * 1e-6


def longest_round_s(samples: int, device: Device) -> float:
    """Longest time of a round of one case, in seconds, for calls up to `LONGEST_CALL_US`."""
    call_us = LONGEST_CALL_US[device]
    return round_cost_s(sample_count(samples, call_us, device), call_us, device)


@dataclass(frozen=True)
class Segment:
    """A part of a run, measured by one worker for each group of cases.

    When it ends, its cases have `rounds` complete rounds, those of earlier segments included. `standing` is a message
    for the observer, and may be empty.
    """

    phase: str
    cases: tuple[Case, ...]
    rounds: int
    standing: str = ""


class FixedRounds:
    """A schedule of the same number of rounds of every case, in equal parts by several workers.

    The process effect, and what a kernel draws once in a process (Inductor's choice, an allocation), is then drawn as
    often. `groups` are the cases that each process measures together, if not all.
    """

    def __init__(self, rounds: int, processes: int, groups: Sequence[Sequence[Case]] = ()) -> None:
        self._groups = groups
        self._targets = tuple(round_share(rounds, processes, number) for number in range(1, processes + 1))

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, _samples: Mapping[str, int], _warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The next segment of the cases that passed the preflight, or None when nothing is left to find out.

        A schedule decides from the samples alone, so that a stopped run can be resumed. Samples are per round, the time
        of a warm call in µs, both by case id.
        """
        left = tuple(case for case in cases if case.id not in collected.lost)
        done = collected.rounds_done(self._groups or [left])
        ended, processes = bisect_right(self._targets, done), len(self._targets)
        if not left or ended == processes:
            return None
        standing = "" if processes == 1 else f"process {ended + 1} of {processes}"
        return Segment("measure", left, self._targets[ended], standing)


def round_share(rounds: int, processes: int, number: int) -> int:
    """Number of rounds done when `number` of the processes have ended: equal parts, rounded up."""
    return -(-rounds * number // processes)
