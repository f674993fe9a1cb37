"""The samples of some kernels, from `samples.parquet`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdnbench import store
from gdnbench.compare.figure import Figure
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.report.plots.view import case_id
from gdnbench.stats import FloatArray
from gdnbench.store.samples import SAMPLES


def read_samples(folder: Path, figures: Sequence[Figure]) -> list[tuple[Figure, FloatArray]]:
    """Each kernel with its samples of all rounds in microseconds; kernels without samples are left out.

    Raises:
        RunFormatError: if `samples.parquet` is missing or damaged.
        UsageError: if none of the kernels has samples.
    """
    ids = {case_id(figure): figure for figure in figures}
    try:
        by_case = store.read_samples(folder, ids)
    except RunFormatError as error:
        raise RunFormatError(error.message, "gdnbench plot rounds needs no samples") from error
    found = [(figure, by_case[name]) for name, figure in ids.items() if name in by_case]
    if not found:
        raise UsageError(
            f"{folder / SAMPLES} has no samples of {', '.join(ids) or 'these kernels'}", "try gdnbench plot rounds"
        )
    return found
