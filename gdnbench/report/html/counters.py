"""The report's section of counters of Nsight Compute, for kernels that `gdnbench ncu` has profiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gdnbench.codec import finite
from gdnbench.errors import collect_left_out
from gdnbench.model.case import Variant
from gdnbench.model.code import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profilers.ncu.functions import Function, functions_of
from gdnbench.profilers.ncu.profile import NcuReport
from gdnbench.profilers.ncu.quantities import QUANTITIES, STALL_MEANINGS
from gdnbench.profilers.ncu.store import StoredProfiles, find_profiles
from gdnbench.report.counters import NOT_A_TIME, heading, quantity_text, stall_reasons, stall_text, titled
from gdnbench.report.html.content import HtmlCell, HtmlColumn, HtmlPart, HtmlRow, HtmlSection, HtmlTable, text_cell
from gdnbench.report.html.stored import ReportedRun

_LEAD = (
    "Counters of single launches, read by Nsight Compute in many replays: they explain a time, and are none; "
    f"{NOT_A_TIME}"
)


@dataclass(frozen=True)
class Profiled:
    """Stored profiles of a report's kernels: by GPU and workload, each once by path.

    `notes` names kernels whose profile is of other code than the run timed; `warnings` has files that cannot be read.
    """

    groups: dict[tuple[str, Workload], dict[Path, StoredProfiles]] = field(default_factory=dict)
    notes: dict[tuple[str, Workload], dict[str, None]] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)


def find_profiled(profiles: Path, runs: Sequence[ReportedRun]) -> Profiled:
    """Finds the newest profile of every case on its GPU: of the code that the run timed, else of other code."""
    found = Profiled()
    for run in runs:
        for case in {(row.case.variant, row.case.workload): None for row in run.rows}:
            _add(found, profiles, run, *case)
    return found


def _add(found: Profiled, profiles: Path, run: ReportedRun, variant: Variant, workload: Workload) -> None:
    timed = run.info.sources.get(variant.kernel, "")
    with collect_left_out() as left_out:
        stored = find_profiles(profiles, variant.label, workload, source=timed, gpu=run.info.gpu)
    found.warnings.update(dict.fromkeys(left_out))
    if stored:
        group = (run.info.gpu, workload)
        found.groups.setdefault(group, {})[stored.path] = stored
        if stored.code is CodeState.CHANGED:
            note = f"{variant.label} was profiled when its code was other than that which {run.info.run_id} timed"
            found.notes.setdefault(group, {})[note] = None


def counters_section(found: Profiled) -> HtmlSection | None:
    """Makes a table per GPU and workload with profiled kernels, or None without profiles."""
    if not found.groups:
        return None
    parts = tuple(
        _part(*group, stored.values(), tuple(found.notes.get(group, ())), f"counters-{number}")
        for number, (group, stored) in enumerate(found.groups.items())
    )
    return HtmlSection(id="counters", title="Counters", lead=_LEAD, parts=parts)


def _part(
    gpu: str, workload: Workload, stored: Iterable[StoredProfiles], notes: tuple[str, ...], name: str
) -> HtmlPart:
    functions = [function for each in stored for function in functions_of(NcuReport(each.path, each.profiles))]
    columns = (
        HtmlColumn(heading="", numeric=False),
        HtmlColumn(heading="quantity", numeric=False),
        *(HtmlColumn(heading=" ".join(heading(function, functions))) for function in functions),
    )
    rows = (*_quantities(functions), *_stalls(functions))
    table = HtmlTable(id=f"{name}-table", caption=f"{gpu}, {workload}: counters by kernel", columns=columns, rows=rows)
    return HtmlPart(id=name, title=f"{gpu}, {workload}", lines=notes, table=table)


def _quantities(functions: Sequence[Function]) -> Iterator[HtmlRow]:
    for quantity in QUANTITIES:
        cells = (
            HtmlCell(text=quantity_text(function, quantity), sort=finite(function.median(quantity)))
            for function in functions
        )
        yield HtmlRow(cells=(text_cell(quantity.group), text_cell(titled(quantity.title, quantity.unit)), *cells))


def _stalls(functions: Sequence[Function]) -> Iterator[HtmlRow]:
    found = [function.stalls() for function in functions]
    for reason in stall_reasons(functions):
        cells = (
            HtmlCell(text=stall_text(stalls.get(reason, 0.0), sum(stalls.values())), sort=stalls.get(reason))
            for stalls in found
        )
        meaning = STALL_MEANINGS.get(reason, "")
        told = f"{reason}: {meaning}" if meaning else reason
        yield HtmlRow(cells=(text_cell("cycles/instruction"), text_cell(told), *cells))
