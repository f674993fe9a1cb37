"""A kernel with its params fixed as a Solution, and a run as traces with intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.exchange import cuda_source, python_source
from gdnbench.exchange.match import SOLUTION_FILE, ExportedKernel, Match, kept_solution
from gdnbench.exchange.schema import (
    BuildSpec,
    Evaluation,
    ExtensionBinding,
    Language,
    Solution,
    SourceFile,
    Trace,
    TracedCorrectness,
    TracedEnvironment,
    TracedPerformance,
    TracedWorkload,
    TraceStatus,
)
from gdnbench.model.kernel import CudaKernel, TorchKernel, TritonKernel
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.store.info import RunInfo
from gdnbench.store.measurements import measurement_row


def solution_of(subject: ExportedKernel, *, author: str, binding: ExtensionBinding) -> Solution:
    """Returns a variant's Solution, unchanged if imported; `binding` is for kernels in CUDA C++.

    Raises UsageError if the kernel needs code outside its sources, or was imported for another Definition.
    """
    entry, definition = subject.entry, subject.match.definition
    if (entry.folder / SOLUTION_FILE).is_file():
        kept = kept_solution(entry.folder)
        if kept.definition != definition.name:
            raise UsageError(f"{entry.kernel.name} was imported for {kept.definition}", "export it for that Definition")
        return kept
    language, sources, is_binding = _sources(subject, binding)
    entry_file = sources[0].path
    return Solution(
        name=solution_name(subject.variant.label),
        definition=definition.name,
        author=author,
        spec=BuildSpec(
            language=language,
            target_hardware=list(entry.kernel.devices),
            entry_point=f"{entry_file}::run",
            dependencies=[need.module for need in entry.kernel.requires] or None,
            destination_passing_style=language != "python",
            binding=binding if is_binding else None,
        ),
        sources=sources,
        description=_description(subject),
    )


def solution_name(label: str) -> str:
    """Returns a label as a Solution's name, also its file's: `decode-triton_BV16` for `decode-triton:BV=16`."""
    return re.sub(r"[^A-Za-z0-9._+-]", "", label.replace(":", "_").replace("=", ""))


def _sources(subject: ExportedKernel, binding: ExtensionBinding) -> tuple[Language, list[SourceFile], bool]:
    match subject.entry.kernel:
        case CudaKernel():
            return "cuda", cuda_source.cuda_sources(subject, binding), True
        case TritonKernel():
            return "triton", python_source.triton_sources(subject), False
        case TorchKernel():
            return "python", python_source.torch_sources(subject), False
        case other:
            raise UsageError(f"{other.name} has no code of its own", "export the kernels that it picks")


def _description(subject: ExportedKernel) -> str:
    params = f" Params: {subject.variant.params}." if subject.variant.params else ""
    return f"{subject.entry.idea}{params}"


OWN_KEY = "gdnbench"
"""The key in `correctness.extra` of the case's rows of `measurements.csv`."""

_STATUSES: Mapping[Status, TraceStatus] = {
    Status.OK: "PASSED",
    Status.WRONG_NUMBERS: "INCORRECT_NUMERICAL",
    Status.UNWRITTEN: "INCORRECT_NUMERICAL",
    Status.CHANGED_INPUT: "INCORRECT_NUMERICAL",
    Status.WRONG_WHEN_TIMED: "INCORRECT_NUMERICAL",
    Status.BROKEN: "COMPILE_ERROR",
    Status.BUILD_FAILED: "COMPILE_ERROR",
    Status.TIMED_OUT: "TIMEOUT",
}
_NOT_EVALUATED = {Status.MISSING, Status.UNSUPPORTED, Status.NOT_RUN}
_ROLES = {Role.KERNEL, Role.BASELINE}  # floors compute nothing, and the control is the baseline again


def run_traces(
    match: Match,
    info: RunInfo,
    measured: Sequence[Measurement],
    lines: Mapping[Workload, TracedWorkload],
    labels: Collection[str],
) -> list[Trace]:
    """Returns a trace for each evaluated case of a run, of the variants in `labels`, or of all if that is empty.

    The format's latency is gdnbench's time by the run's own timer. `reference_latency_ms` and `speedup_factor` stay
    unset, as no run times the float64 reference; so do the errors, as no run keeps them in the format's units. The
    interval, the speedup over the baseline and the run's other columns are in `correctness.extra`, and in `log` if a
    failure may have no correctness.

    Args:
        measured: the run's rows, of all clocks.
        lines: the line of each workload; others are left out. A run from before an axis was added has its default.
    """
    complete = match.op.workloads.completed
    cases: dict[tuple[str, Workload], list[Measurement]] = {}
    for row in measured:
        label, workload = row.case.label, complete(row.case.workload)
        is_wanted = workload in lines and (not labels or label in labels)
        if is_wanted and row.role in _ROLES and row.status not in _NOT_EVALUATED:
            cases.setdefault((label, workload), []).append(row)
    return [_trace(match, info, rows, lines[workload]) for (_, workload), rows in cases.items()]


def _trace(match: Match, info: RunInfo, rows: Sequence[Measurement], workload: TracedWorkload) -> Trace:
    own = next((row for row in rows if row.clock is None), rows[0])
    status = _STATUSES.get(own.status, "RUNTIME_ERROR")
    extra = {OWN_KEY: _own(info, rows)}
    return Trace(
        definition=match.definition.name,
        workload=workload,
        solution=solution_name(own.case.label),
        evaluation=Evaluation(
            status=status,
            environment=_environment(info),
            timestamp=str(info.timestamp),
            log=f"{own.status.value}: {own.reason}" if own.status is not Status.OK else None,
            correctness=TracedCorrectness(extra=extra) if status in {"PASSED", "INCORRECT_NUMERICAL"} else None,
            performance=TracedPerformance(latency_ms=own.timing.time_us / 1000) if own.timing else None,
        ),
    )


def _environment(info: RunInfo) -> TracedEnvironment:
    gpu = info.machine.get("gpu") or {}
    libs = {name: version for name, version in info.machine.get("versions", {}).items() if version}
    return TracedEnvironment(hardware=str(gpu.get("name") or info.gpu), libs=libs or None)


def _own(info: RunInfo, rows: Sequence[Measurement]) -> dict[str, Any]:
    """Returns the run's name, its settings, and each row by column, without unknown values."""
    return {
        "run_id": info.run_id,
        "confidence": info.settings.get("confidence"),
        "margin": info.settings.get("margin"),
        "source_hash": info.sources.get(rows[0].case.variant.kernel),
        "rows": [_known(measurement_row(info, row)) for row in rows],
    }


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in row.items()
        if value not in {None, ""} and not (isinstance(value, float) and not math.isfinite(value))
    }
