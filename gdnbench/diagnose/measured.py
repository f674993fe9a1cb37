"""The last run that has a kernel at a shape: of its code as it is now, else of whatever code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gdnbench.catalog import Entry
from gdnbench.diagnose.evidence import Measured
from gdnbench.model import CodeState, Measurement, Role, Shape, Variant
from gdnbench.store import RunInfo, read_info, read_measurements, readable, runs_beside


def last_measured(
    results: Path, entries: Mapping[str, Entry], variant: Variant, shape: Shape, gpu: str | None
) -> Measured | None:
    """What the newest run says that timed a kernel's code at a shape on a GPU; of other code where none did.

    Args:
        results: where runs are.
        entries: the catalog's kernels, which tell what a floor is and what their code is now.
        variant: the kernel; a run with other params of the same label is not of it.
        shape: the workload.
        gpu: the GPU's short name; any GPU if not given.
    """
    newest: Measured | None = None

    def measured_in(folder: Path) -> Measured | None:
        info = read_info(folder)
        if not info.on_gpu or gpu not in {None, info.gpu}:
            return None
        if newest and _code_of(variant, info, entries) is not CodeState.CURRENT:
            return None
        return _measured(info, read_measurements(folder), entries, variant, shape)

    for found in readable(runs_beside(results), measured_in):
        if found and found.code is CodeState.CURRENT:
            return found
        newest = newest or found
    return newest


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
    codes = {label: _code_of(row.case.variant, info, entries) for label, row in timed.items()}
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
        code=codes[variant.label],
        changed=tuple(label for label, code in codes.items() if code is CodeState.CHANGED),
    )


def _code_of(variant: Variant, info: RunInfo, entries: Mapping[str, Entry]) -> CodeState:
    """Whether a run timed a variant's code as it is now; what a dispatcher picked is of its table, too."""
    names = {variant.kernel, variant.label} & entries.keys()
    return CodeState.together(entries[name].code_state(info.sources.get(name, "")) for name in names)


def _is_here(row: Measurement, entries: Mapping[str, Entry]) -> bool:
    return row.case.variant.kernel in entries
