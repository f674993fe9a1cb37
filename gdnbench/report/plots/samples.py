"""The samples of some kernels, from `samples.parquet`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    import pandas as pd

    path = folder / SAMPLES
    ids = {case_id(figure): figure for figure in figures}
    try:
        frame = pd.read_parquet(path, columns=["case", "time_us"], filters=[("case", "in", list(ids))])
    except (OSError, ValueError, KeyError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", "gdnbench plot rounds needs no samples") from error
    grouped = frame.groupby("case", observed=True)["time_us"]
    by_case = {str(case): times.to_numpy(dtype=float) for case, times in grouped}
    found = [(figure, by_case[name]) for name, figure in ids.items() if name in by_case]
    if not found:
        raise UsageError(f"{path} has no samples of {', '.join(ids) or 'these kernels'}", "try gdnbench plot rounds")
    return found
