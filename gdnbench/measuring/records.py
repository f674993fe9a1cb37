"""Reads NVBench's files of each round in the parent, since a kernel's code could change a reader in the worker.

NVBench numbers the files from 0 in the order of writing: float32 seconds in `<record>-bin`, Hz in `<record>-freqs-bin`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gdnbench.errors import MachineError

_HINT = "measure it again; where it comes again, see `gdnbench doctor`"


def read_record(record: Path, number: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the samples of a round of a case, from files beside NVBench's JSON: times in µs and SM clocks in MHz.

    Args:
        record: NVBench's JSON, beside whose name the files stand.
        number: of the round's files.

    Raises:
        MachineError: if there is no such file, or one holds no times, or what is none, as NaN.
    """
    times, clocks = (file_of(record, number, kind) for kind in ("bin", "freqs-bin"))
    try:
        times_us = np.fromfile(times, np.float32).astype(float) * 1e6
        sm_mhz = np.fromfile(clocks, np.float32).astype(float) / 1e6 if clocks.is_file() else np.empty(0)
    except OSError as error:
        raise MachineError(f"NVBench left no samples in {times}: {error.strerror}", "see `gdnbench doctor`") from error
    if not len(times_us):
        raise MachineError(f"NVBench left no samples in {times}", "see `gdnbench doctor`")
    if strange := times_us[~(np.isfinite(times_us) & (times_us > 0))].tolist():
        raise MachineError(f"NVBench measured {strange[0]:g} µs, which is no time, as {times} has it", _HINT)
    sm_mhz = sm_mhz[np.isfinite(sm_mhz)]
    # Four digits are a tenth of a nanosecond: below every timer's tick, and a third of float64's text.
    return tuple(np.round(times_us, 4).tolist()), tuple(np.round(sm_mhz, 1).tolist())


def file_of(record: Path, number: int, kind: str) -> Path:
    """The path of a round's file; `kind` is `bin` for times, `freqs-bin` for clocks."""
    return record.with_name(f"{record.name}-{kind}") / f"{number}.bin"
