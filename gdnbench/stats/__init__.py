"""Estimates, confidence intervals and verdicts: pure functions of arrays.

A run's numbers take this path: `trimmed_mean` reduces the samples of a round to one time, `estimate_effects` finds what
the processes add, `PairedLogRatio` holds the ratio of two cases with its variance, `judge_family` judges many ratios
and `compare_with_best` finds the fastest case. `interpolated_median` serves comparison with tools that report a median.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""A float64 array; its shape and units are in the docstring of the function that takes it."""

IntArray: TypeAlias = npt.NDArray[np.int64]
"""An int64 array; its shape is in the docstring of the function that takes it."""
