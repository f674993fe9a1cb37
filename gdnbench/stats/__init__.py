"""Estimates, confidence intervals and verdicts: pure functions of arrays.

The path of a run's numbers: `trimmed_mean` reduces the samples of a round to one time; `estimate_effects` tells
what the processes add to the rounds; `PairedLogRatio` holds what the rounds of two cases say of their ratio, with its
variance; `judge_family` judges many of them, and `compare_with_best` finds the fastest of many. `infer_resolution_us`
and `interpolated_median` give the median beside it, for comparison with tools that report one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""A float64 array; its shape and units are in the docstring of the function that takes it."""

IntArray: TypeAlias = npt.NDArray[np.int64]
"""An array of integers, likewise."""
