"""A model of what a GPU's timer says of a kernel of a few microseconds, for the tests of the statistics.

Each sample is the kernel's time, times the level of its round, times lognormal noise; a few are slow
outliers; all are rounded to the timer's tick and stored as float32 seconds. The level of a round is shared
by every kernel in it: a random clock, and a drift over the run that no kernel escapes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from gdnbench.stats import FloatArray
from gdnbench.store.settings import GPU_TRIM

TRIMMED_EFFICIENCY = np.sqrt(
    1.026
)  # standard error of a normal's 5 % trimmed mean over that of its mean (Huber, "Robust Statistics", 1981)


@dataclass(frozen=True)
class TimingModel:
    rounds: int = 41
    samples: int = 250
    noise: float = 0.03
    outlier_share: float = 0.02
    clock_sd: float = 0.003
    drift: float = 0.01
    walk_sd: float = 0.001
    tick_us: float = 0.032

    def levels(self, rng: np.random.Generator, trials: int) -> FloatArray:
        """Relative level of each round, shape (trials, rounds)."""
        shape = (trials, self.rounds)
        walk = np.cumsum(rng.normal(0.0, self.walk_sd, shape), axis=1)
        clock = rng.normal(0.0, self.clock_sd, shape)
        return np.exp(clock + walk + np.linspace(0.0, self.drift, self.rounds))

    def samples_us(self, rng: np.random.Generator, time_us: float, levels: FloatArray) -> FloatArray:
        """Samples as the timer gives them, shape (*levels.workload, samples)."""
        shape = (*levels.shape, self.samples)
        times = rng.standard_normal(shape, dtype=np.float32)
        times = np.exp(np.float32(self.noise) * times) * (time_us * levels)[..., None].astype(np.float32)
        luck = rng.random(shape, dtype=np.float32)
        slow = luck < self.outlier_share
        times[slow] *= 1.5 + 1.5 * luck[slow] / self.outlier_share
        ticks = np.rint(times / np.float32(self.tick_us)).astype(np.float64)
        return (ticks * (self.tick_us * 1e-6)).astype(np.float32).astype(np.float64) * 1e6

    def round_times(self, rng: np.random.Generator, time_us: float, levels: FloatArray) -> FloatArray:
        """Trimmed mean of each round, from samples; shape of `levels`."""
        chunks = np.array_split(levels, max(1, len(levels) // 50))
        return np.concatenate([trimmed_means(self.samples_us(rng, time_us, chunk)) for chunk in chunks])

    def normal_times(self, rng: np.random.Generator, time_us: float, levels: FloatArray) -> FloatArray:
        """Round times drawn from their own asymptotic distribution: no samples, a thousand times faster."""
        sd = TRIMMED_EFFICIENCY * self.noise / np.sqrt(self.samples)
        return self.true_time_us(time_us) * levels * np.exp(rng.normal(0.0, sd, levels.shape))

    def true_time_us(self, time_us: float) -> float:
        """Population trimmed mean at level 1, of a lognormal cut at two quantiles.

        The outliers all lie above, so the cuts are quantiles a little higher of the rest.
        """
        low, high = GPU_TRIM / (1.0 - self.outlier_share), (1.0 - GPU_TRIM) / (1.0 - self.outlier_share)
        share = ndtr(ndtri(high) - self.noise) - ndtr(ndtri(low) - self.noise)
        return float(time_us * np.exp(self.noise**2 / 2.0) * share / (high - low))


def trimmed_means(samples_us: FloatArray) -> FloatArray:
    """Trimmed means along the last axis, of many rounds at once: gdnbench's own does one at a time."""
    count = samples_us.shape[-1]
    below = int(GPU_TRIM * count)  # samples that lie wholly below the first cut
    part = 1.0 - (GPU_TRIM * count - below)  # of the sample that it cuts, this much lies above it
    middle = np.sort(samples_us, axis=-1)[..., below : count - below]
    inner = middle[..., 1:-1].sum(axis=-1)
    return (inner + part * (middle[..., 0] + middle[..., -1])) / ((1.0 - 2.0 * GPU_TRIM) * count)
