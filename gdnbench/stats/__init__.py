"""Estimates, confidence intervals and verdicts: pure functions of arrays.

The path of a run's numbers: `interquartile_mean` reduces the samples of a round to one time; `round_interval` reduces
the rounds to a case's time with its interval; `compare_rounds` and `compare_family` judge cases by the rounds that they
share, and `compare_with_best` finds the fastest of many. `infer_resolution_us` and `interpolated_median` give the
median beside it, for comparison with tools that report one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""A float64 array; its shape and units are in the docstring of the function that takes it."""
