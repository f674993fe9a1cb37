"""A launch's share of a graph's replay: what the flushes take is taken out."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from gdnbench.stats import interquartile_mean

LAUNCHES = 32  # in one graph: each placement of a rotation is visited once, and one tick of the events is 1 ns a launch
FEWEST_REPLAYS = 6
SAMPLES_PER_REPLAY = 16  # a replay is worth many samples: it times 32 launches at once


def replays_of(samples: int) -> int:
    """Timed replays in a round, from the samples that a timer of single launches takes."""
    return max(FEWEST_REPLAYS, samples // SAMPLES_PER_REPLAY)


def per_launch_us(replays_us: Sequence[float], flushes_us: Sequence[float]) -> tuple[float, ...]:
    """Time of one launch by each replay of a round, microseconds.

    Args:
        replays_us: replays of flush and launch, `LAUNCHES` times each.
        flushes_us: replays of the flushes alone, in the same round.

    Raises:
        RuntimeError: if the launches take no time beside the flushes, so that there is nothing to tell.
    """
    flush_us = median(flushes_us)
    times_us = tuple(round((replay_us - flush_us) / LAUNCHES, 4) for replay_us in replays_us)
    if interquartile_mean(np.asarray(times_us)) <= 0:
        raise RuntimeError("a graph of its launches replays no slower than the flushes between them alone")
    return times_us
