"""How much is measured, in which order, and what is measured next."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Protocol, TypeVar

from gdnbench.measuring.protocol import COLD_WARM_UPS, placement_count
from gdnbench.measuring.rounds import Collected
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

T = TypeVar("T")

# What a cold GPU sample costs beside the kernel, on an H200: L2 flush, blocking kernel, scrubbing, the host.
GPU_SAMPLE_US = 100.0
GPU_ROUND_US = 25_000.0
GPU_STATE_US = 4_000.0  # of NVBench itself, for each round of a case
# torch's timer calls twice to warm up for each call that it times.
CPU_CALLS_PER_SAMPLE = 3
CPU_ROUND_US = 60_000.0
FEWEST_SAMPLES = {"cuda": 40, "cpu": 5}


def round_order(cases: Sequence[Case], rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """The ids of all cases once a round: workload by workload, both shuffled anew in each round.

    The cases of a workload are compared with each other: they stay together, so that what drifts in a process moves
    both of a pair, and they are shuffled, so that none always follows another.
    """
    generator = random.Random(seed)
    groups: dict[Workload, list[str]] = {}
    for case in cases:
        groups.setdefault(case.shape, []).append(case.id)
    return tuple(
        tuple(chain.from_iterable(_shuffled(generator, ids) for ids in _shuffled(generator, list(groups.values()))))
        for _ in range(rounds)
    )


def memory_blocks(op: Op, cases: Sequence[Case], budget_bytes: int) -> tuple[tuple[Case, ...], ...]:
    """The cases in blocks that are measured one after the other, each of as many workloads as fit into memory.

    Args:
        op: the op, for the size of its tensors.
        cases: ordered by workload.
        budget_bytes: for the tensors of a block at all of their placements; a workload that is larger is a block.
    """
    blocks: list[list[Case]] = []
    left = 0
    for workload, group in groupby(cases, key=lambda case: case.shape):
        nbytes = placements_bytes(op.tensor_bytes(workload))
        if not blocks or nbytes > left:
            blocks.append([])
            left = budget_bytes
        blocks[-1].extend(group)
        left -= nbytes
    return tuple(map(tuple, blocks))


def placements_bytes(tensor_bytes: int) -> int:
    """Memory of a workload's tensors at all placements, with the outputs that kernels allocate themselves."""
    return 2 * placement_count(tensor_bytes) * tensor_bytes


def _shuffled(generator: random.Random, items: Sequence[T]) -> list[T]:
    return generator.sample(items, len(items))


def sample_count(asked: int, warm_us: float, device: Device) -> int:
    """Samples per round: as many as asked for, fewer where a round of a slow kernel would take too long."""
    if device == "cuda":
        affordable = GPU_ROUND_US / (GPU_SAMPLE_US + warm_us)
    else:
        affordable = CPU_ROUND_US / (CPU_CALLS_PER_SAMPLE * max(warm_us, 1.0))
    return min(asked, max(int(affordable), FEWEST_SAMPLES[device]))


def round_cost_s(samples: int, warm_us: float, device: Device) -> float:
    """About how long a round of one case takes, in seconds."""
    if device == "cuda":
        return (GPU_STATE_US + (samples + COLD_WARM_UPS) * (GPU_SAMPLE_US + warm_us)) * 1e-6
    return samples * CPU_CALLS_PER_SAMPLE * warm_us * 1e-6


def longest_round_s(samples: int, device: Device) -> float:
    """How long a round of one case may take, in seconds: `sample_count` keeps it to that, but for very slow kernels."""
    if device == "cuda":
        full_us = (samples + COLD_WARM_UPS) * GPU_SAMPLE_US
        return (GPU_STATE_US + min(full_us, GPU_ROUND_US)) * 1e-6
    return CPU_ROUND_US * 1e-6


@dataclass(frozen=True)
class Segment:
    """A stretch of a run, measured by one worker.

    Attributes:
        phase: what progress calls it.
        cases: what is measured, interleaved.
        rounds: how many whole rounds these cases are to have when it ends, those of earlier segments included.
        standing: what to tell whoever watches; may be empty.
    """

    phase: str
    cases: tuple[Case, ...]
    rounds: int
    standing: str = ""


class Schedule(Protocol):
    """Decides segment by segment; what it decides follows from what was measured, so that a stopped run can go on."""

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, samples: Mapping[str, int], warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The next segment, or None when there is nothing left to find out.

        Args:
            cases: the healthy ones.
            collected: everything measured so far.
            samples: per round, by case id.
            warm_us: time of a warm call, microseconds, by case id.
        """


class FixedRounds:
    """The same number of rounds of every case, in one segment."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, _samples: Mapping[str, int], _warm_us: Mapping[str, float]
    ) -> Segment | None:
        """All rounds, once."""
        left = tuple(case for case in cases if case.id not in collected.lost)
        if not left or len(collected.complete_rounds(case.id for case in left)) >= self._rounds:
            return None
        return Segment("measure", left, self._rounds)
