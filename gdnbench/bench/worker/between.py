"""What happens between samples, outside every timed launch."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from gdnbench.bench.worker.empty import EmptyKernel
from gdnbench.bench.worker.scrub import Scrubber

_MOST_DITHER = 8


class Between:
    """Dithers the launch queue before each sample and scrubs the L2 after it, on the stream current when it is made.

    Dithering: the GPU's front end reads commands from a ring, and a launch costs more where its commands
    straddle some boundary of it. Every sample enqueues the same number of commands, so all samples of a round would
    share one phase, and rounds would fall into two groups, 0.17 µs apart on an H200 (docs/measuring.md). A random
    number of empty launches lets every round see every phase.
    """

    def __init__(self, seed: int) -> None:
        self._nothing = EmptyKernel("nothing")
        self._random = random.Random(seed)
        self._scrub = Scrubber()

    def before(self) -> None:
        """Before a sample."""
        for _ in range(self._random.randrange(_MOST_DITHER)):
            self._nothing.launch()

    def after(self, input_ranges: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """After a sample."""
        self._scrub(input_ranges, outputs)


class Nothing:
    """For plain NVBench."""

    def before(self) -> None:
        """Nothing."""

    def after(self, input_ranges: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Nothing."""
