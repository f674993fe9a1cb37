"""Tidy CSV files: reading and writing with the columns checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gdnbench.errors import RunFormatError

Row = dict[str, Any]


def write_table(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Writes rows as CSV in one step; floats with six significant digits, missing values empty."""
    import numpy as np
    import pandas as pd

    temporary = path.with_name(path.name + ".new")
    # Without the conversion a whole number in a column with gaps is written as 8.0. It casts to see whether it may, and
    # an infinite bound of an interval is no reason for a warning.
    with np.errstate(invalid="ignore"):
        frame = pd.DataFrame(list(rows), columns=list(columns)).convert_dtypes()
    # A lone carriage return, as of a compiler's progress bar, would end the row: Python's csv does not quote it.
    frame = frame.replace(r"\r\n?", "\n", regex=True)
    frame.to_csv(temporary, index=False, float_format="%.6g")
    temporary.replace(path)


def read_table(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file as text.

    Raises:
        RunFormatError: if it is missing, lacks one of `columns`, or was cut off.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_filter=False)
    except (OSError, ValueError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", "the run is damaged; measure anew") from error
    if not path.read_bytes().endswith(b"\n"):
        raise RunFormatError(f"{path} is cut off", "the run is damaged; measure anew")
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise RunFormatError(f"{path} lacks the column {', '.join(missing)}", "was it written by this gdnbench?")
    rows = [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
    for line, row in enumerate(rows, start=2):
        if not all(isinstance(value, str) for value in row.values()):
            raise RunFormatError(f"{path} line {line} is cut off", "the run is damaged; measure anew")
    return rows


def number(text: str) -> float:
    """A CSV cell as a float; NaN if empty."""
    return float(text) if text else float("nan")
