"""The one array type the statistics take."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""A float64 array; its shape and units are in the docstring of the function that takes it."""
