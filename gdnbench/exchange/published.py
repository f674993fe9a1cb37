"""Latencies in traces as a table of published figures: others' numbers, kept apart from gdnbench's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdnbench.compare.foreign import PUBLISHED_COLUMNS, PUBLISHED_NAME
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.exchange.dataset import safe_name
from gdnbench.exchange.match import Match
from gdnbench.exchange.schema import Trace
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.workload import Workload
from gdnbench.store.files import write_table
from gdnbench.store.find import PUBLISHED_FOLDER

TIMER = "flashinfer-bench"


@dataclass(frozen=True)
class PublishedTable:
    """Figures of one op on one GPU.

    Attributes:
        name: the table's folder in `results/published`.
        left_out: number of traces without a latency, or of workloads that the op does not have.
    """

    name: str
    rows: list[dict[str, Any]]
    columns: Sequence[str]
    left_out: int


def published_tables(match: Match, traces: Sequence[Trace]) -> list[PublishedTable]:
    """Returns tables of traces, one for each GPU.

    A workload of several traces, each with other inputs, gets the geometric mean of their latencies, and a note with
    their number.
    """
    by_gpu: dict[str, dict[tuple[str, Workload], list[Trace]]] = {}
    left_out: dict[str, int] = {}
    for trace in traces:
        assert trace.evaluation
        gpu = gpu_slug(trace.evaluation.environment.hardware.replace("_", " "))
        workload = _workload(match, trace)
        if workload is None:
            left_out[gpu] = left_out.get(gpu, 0) + 1
        else:
            key = (safe_name(trace.solution or "") or "solution", workload)
            by_gpu.setdefault(gpu, {}).setdefault(key, []).append(trace)
    axes = match.op.workloads.names
    return [
        PublishedTable(
            name=safe_name(f"{match.definition.name}-{gpu}"),
            rows=[_row(match, gpu, kernel, workload, same) for (kernel, workload), same in found.items()],
            columns=("op", "kernel", "timer", *axes, "time_us", "gpu", "published_in", "published_on", "note"),
            left_out=left_out.get(gpu, 0),
        )
        for gpu, found in by_gpu.items()
    ]


def _workload(match: Match, trace: Trace) -> Workload | None:
    performance = trace.evaluation.performance if trace.evaluation else None
    if performance is None or not performance.latency_ms > 0:
        return None
    try:
        return match.workload(trace.workload)
    except GdnbenchError:
        return None


def _row(match: Match, gpu: str, kernel: str, workload: Workload, traces: Sequence[Trace]) -> dict[str, Any]:
    evaluations = [trace.evaluation for trace in traces if trace.evaluation]
    latencies = [each.performance.latency_ms for each in evaluations if each.performance]
    mean_ms = math.exp(sum(map(math.log, latencies)) / len(latencies))
    note = f"geometric mean of {len(latencies)} workloads of these sizes" if len(latencies) > 1 else ""
    return {
        "op": match.op.name,
        "kernel": kernel,
        "timer": TIMER,
        **workload.cells,
        "time_us": f"{mean_ms * 1000:.6g}",
        "gpu": gpu,
        "published_in": f"traces of {safe_name(match.definition.name)}",
        "published_on": safe_name(max(each.timestamp for each in evaluations)[:10]),
        "note": note,
    }


def write_published(results: Path, table: PublishedTable) -> Path:
    """Writes a table into a results folder; raises UsageError if it exists already, or cannot be written."""
    assert set(PUBLISHED_COLUMNS) <= set(table.columns)
    folder = results / PUBLISHED_FOLDER / table.name
    if folder.exists():
        raise UsageError(f"{folder} exists", "remove it first, or name another results folder with --out")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name another folder with --out") from error
    write_table(folder / PUBLISHED_NAME, table.rows, table.columns)
    return folder
