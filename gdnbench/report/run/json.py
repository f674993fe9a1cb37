"""A stored run's rows for `--json` and `--csv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdnbench.compare.suite import SuiteResult, SuiteRow
from gdnbench.model.measurement import Measurement
from gdnbench.report.run.clocks import ClockGap, Clocks, gaps_of
from gdnbench.store.builds import BuildRow, build_row
from gdnbench.store.info import RunInfo, info_document
from gdnbench.store.measurements import measurement_row


def run_document(
    info: RunInfo,
    measurements: Sequence[Measurement],
    clocks: Clocks,
    builds: Sequence[BuildRow],
    result: SuiteResult | None,
) -> dict[str, Any]:
    """Returns a run as one document; `measurements` are by its own timer, `clocks` by further clocks."""
    rows = flat_rows(info, measurements, clocks)
    document = {
        "run": info_document(info),
        "measurements": rows,
        "builds": [build_row(info, build) for build in builds],
    }
    return document | ({"suite": _suite_document(result)} if result else {})


def flat_rows(info: RunInfo, measurements: Sequence[Measurement], clocks: Clocks) -> list[dict[str, Any]]:
    """Returns a row per case and clock; with several clocks, the rows of the run's own timer hold the gaps."""
    gaps = gaps_of(measurements, clocks)
    own = [
        {**measurement_row(info, row), **(gaps.get(row.case.id, ClockGap()).cells() if clocks else {})}
        for row in measurements
    ]
    return [*own, *(measurement_row(info, row) for rows in clocks.values() for row in rows)]


def suite_rows(result: SuiteResult) -> list[dict[str, Any]]:
    """Returns a row per kernel of a suite."""
    return [_suite_row(row, result) for row in result.rows]


def _suite_document(result: SuiteResult) -> dict[str, Any]:
    return {
        "name": result.suite.name,
        "workloads": [
            {**workload.cells, "weight": weight, **({"name": workload.name} if workload.name else {})}
            for workload, weight in result.suite.weights.items()
        ],
        "left_out": [workload.cells for workload in result.left_out],
        "over": list(result.over),
        "profiles": list(result.profiles),
        "kernels": suite_rows(result),
        "incomplete": list(result.incomplete),
    }


def _suite_row(row: SuiteRow, result: SuiteResult) -> dict[str, Any]:
    versus = row.comparison
    return {
        "suite": result.suite.name,
        "label": row.label,
        "role": row.role.value,
        "time_us": row.time_us,
        "over": ",".join(result.over),
        "speedup": versus.speedup.estimate if versus else None,
        "speedup_lo": versus.speedup.low if versus else None,
        "speedup_hi": versus.speedup.high if versus else None,
        "verdict": versus.verdict.value if versus else "",
        "workloads": result.summed,
        "slower_at": row.slower_at(result.margin) if versus else None,
        "worst_speedup": row.speedups[row.worst] if row.worst else None,
        "worst_workload": str(row.worst or ""),
        "profile": row.profile,
        "depends_on_inputs": row.inputs.depends if row.inputs else None,
    }
