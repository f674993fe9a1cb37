"""The last run that has a kernel at a shape."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdnbench.catalog import Entry
from gdnbench.diagnose.evidence import Measured
from gdnbench.errors import RunFormatError
from gdnbench.model import Measurement, Role, Shape, Variant
from gdnbench.store import RunInfo, list_runs, read_info, read_measurements


def last_measured(
    results: Path, entries: Mapping[str, Entry], variant: Variant, shape: Shape, gpu: str | None
) -> Measured | None:
    """What the newest run says that timed a kernel at a shape on a GPU; None if none did.

    Args:
        results: where runs are.
        entries: the catalog's kernels, which tell what a floor is.
        variant: the kernel; a run with other params of the same label is not of it.
        shape: the workload.
        gpu: the GPU's short name; any GPU if not given.
    """
    for folder in reversed(list_runs(results)):
        with contextlib.suppress(RunFormatError):  # a damaged run is no evidence
            info = read_info(folder)
            if info.gpu == "cpu" or gpu not in {None, info.gpu}:
                continue
            found = _measured(info, read_measurements(folder), entries, variant, shape)
            if found:
                return found
    return None


def _measured(
    info: RunInfo, rows: Sequence[Measurement], entries: Mapping[str, Entry], variant: Variant, shape: Shape
) -> Measured | None:
    timed = {row.case.label: row for row in rows if row.timing and row.case.shape == shape and row.role != Role.CONTROL}
    own = timed.get(variant.label)
    if own is None or own.timing is None or own.case.variant.params != variant.params:
        return None
    kinds = {
        label: entries[row.case.variant.kernel].kernel.floor for label, row in timed.items() if _is_here(row, entries)
    }
    times_us = {label: row.timing.time_us for label, row in timed.items() if row.timing}
    copies = [label for label, kind in kinds.items() if kind == "copy"]
    copy = min(copies, key=lambda label: times_us[label], default="")
    return Measured(
        run_id=info.run_id,
        gpu=info.gpu,
        time_us=own.timing.time_us,
        times_us=times_us,
        empty=next((label for label, kind in kinds.items() if kind == "empty"), ""),
        copy=copy,
        copy_bytes=timed[copy].nbytes if copy else 0,
        launches=own.launches,
    )


def _is_here(row: Measurement, entries: Mapping[str, Entry]) -> bool:
    return row.case.variant.kernel in entries
