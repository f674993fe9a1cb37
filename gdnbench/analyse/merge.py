"""Makes one run of its parts: checked, in order, with verdicts corrected for all comparisons."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from gdnbench.analyse.analysis import compare_cases, ratios_of
from gdnbench.analyse.card_run import pool_times
from gdnbench.analyse.conclude import one_for_all_of
from gdnbench.analyse.rounds import WorkloadTimes
from gdnbench.catalog.catalog import Catalog
from gdnbench.codec import convert
from gdnbench.errors import UsageError
from gdnbench.model.case import Case, same_sources
from gdnbench.model.measurement import Measurement, Plateau, Point, Sweep, Versus
from gdnbench.model.status import CLOCKS, Clock
from gdnbench.model.workload import Workload
from gdnbench.store.files import RunFolder, run_id_of
from gdnbench.store.info import (
    RunInfo,
    case_documents,
    merge_claims,
    merge_errors,
    merge_passed_gates,
    part_of,
    read_info,
    write_info,
)
from gdnbench.store.measurements import merge_contest, read_by_clock, write_measurements
from gdnbench.store.samples import CaseRounds, merge_rounds, merge_samples, read_case_rounds
from gdnbench.store.schema import GitDocument, MachineDocument
from gdnbench.store.tables import (
    BuildRow,
    read_builds,
    read_launches,
    read_sweep,
    write_builds,
    write_launches,
    write_sweep,
)

_MAY_DIFFER = ("seed",)  # settings in which parts may differ


@dataclass(frozen=True)
class StoredPart:
    """A part of a run, numbered from 1."""

    folder: Path
    info: RunInfo
    number: int

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Its workloads, in order."""
        return tuple(dict.fromkeys(self.info.workloads.stored_case(case) for case in self.info.cases))


def read_parts(folders: Iterable[Path]) -> list[StoredPart]:
    """Reads the parts of one run, in their order; UsageError if they are not all of one, each complete and once."""
    parts = sorted((_read(folder) for folder in folders), key=lambda part: part.number)
    if not parts:
        raise UsageError("no run was named", "name the parts of one: `gdnbench runs` lists them")
    for part in parts[1:]:
        _check_alike(parts[0], part)
    _check_all_there(parts)
    return parts


def in_order(parts: Sequence[StoredPart]) -> list[Workload]:
    """The workloads of all parts, in their order before `Part.take` assigned them round robin."""
    turns = zip_longest(*(part.workloads for part in parts))
    return [workload for workload in chain.from_iterable(turns) if workload is not None]


def _read(folder: Path) -> StoredPart:
    info = read_info(folder)
    part = part_of(info)
    if part is None:
        raise UsageError(f"{info.run_id} is not a part of a run", "a part is measured by `gdnbench run --part 1/4 ...`")
    if not info.complete:
        finish = shlex.join(["gdnbench", "run", "--resume", info.run_id])
        raise UsageError(f"{info.run_id} is not complete", f"finish it: {finish}")
    return StoredPart(folder, info, part.number)


def _check_alike(first: StoredPart, other: StoredPart) -> None:
    settings = [
        {name: value for name, value in part.info.settings.items() if name not in _MAY_DIFFER}
        for part in (first, other)
    ]
    apart: dict[str, tuple[Any, Any]] = {
        "op": (first.info.op, other.info.op),
        "definition of the op": (first.info.op_hash, other.info.op_hash),
        "GPU model": (first.info.gpu, other.info.gpu),
        "number of parts": (first.info.part, other.info.part and {**other.info.part, "number": first.number}),
        "baseline": (first.info.baseline, other.info.baseline),
        "suite": (first.info.suite, other.info.suite),
        "params swept": (first.info.swept, other.info.swept),
        **{f"setting {name}": (settings[0].get(name), settings[1].get(name)) for name in sorted({*chain(*settings)})},
        **{
            f"code of {name}": (first.info.sources[name], other.info.sources[name])
            for name in first.info.sources.keys() & other.info.sources.keys()
            if not same_sources(first.info.sources[name], other.info.sources[name])
        },
    }
    for what, (left, right) in apart.items():
        if left != right:
            names = f"{first.info.run_id} and {other.info.run_id}"
            raise UsageError(f"{names} are not parts of one run: they differ in the {what}", "measure them alike")


def _check_all_there(parts: Sequence[StoredPart]) -> None:
    numbers = [part.number for part in parts]
    of = part_of(parts[0].info)
    assert of is not None
    if twice := next((number for number in numbers if numbers.count(number) > 1), None):
        raise UsageError(f"part {twice} of {of.of} is named twice", "name each part once")
    if missing := [str(number) for number in range(1, of.of + 1) if number not in numbers]:
        raise UsageError(f"part {', '.join(missing)} of {of.of} is missing", "name all parts of the run")
    workloads = [workload for part in parts for workload in part.workloads]
    if shared := next((workload for workload in workloads if workloads.count(workload) > 1), None):
        raise UsageError(f"{shared} is in two parts", "parts of one run have workloads of their own")


def judged_together(
    rows: Sequence[Measurement],
    rounds: Mapping[tuple[str, Clock | None], CaseRounds],
    *,
    margin: float,
    confidence: float,
) -> list[Measurement]:
    """The rows of all parts and clocks, with verdicts corrected for all comparisons of each clock."""
    versus: dict[tuple[str, Clock | None], Versus] = {}
    for clock in dict.fromkeys(row.clock for row in rows):
        timed = [row for row in rows if row.clock == clock and row.timing]
        at = {}
        for workload in dict.fromkeys(row.case.workload for row in timed):
            here = [row for row in timed if row.case.workload == workload]
            pooled = pool_times(here, [("", {row.case.id: rounds[row.case.id, clock] for row in here})])
            at[workload] = WorkloadTimes(pooled.times, pooled.effects, confidence)
        cases = [row.case for row in timed]
        found = compare_cases(cases, ratios_of(cases, at), margin=margin, confidence=confidence)
        versus |= {(case_id, clock): each for case_id, each in found.items()}
    return [replace(row, versus=versus.get((row.case.id, row.clock), row.versus)) for row in rows]


T = TypeVar("T", Point, Plateau)
_RECORDS = "nvbench"


def merge_parts(catalog: Catalog, folders: Iterable[Path], results: Path, command: str = "") -> Path:
    """Replaces the parts of one run by the whole run, and returns its folder.

    Every workload keeps its times. Verdicts are corrected anew, and of a sweep, for which alone `catalog` is needed,
    the one point for all is chosen anew. `command` is that of the whole run, by default that of a part without
    `--part`.
    """
    parts = read_parts(folders)
    workloads = in_order(parts)
    rows = _rows(parts, workloads)
    info = _info(parts, [row.case for row in rows if row.clock is None])
    folder = RunFolder.create(results, info.run_id)
    info = replace(info, run_id=folder.run_id, command=command or info.command)
    try:
        _write(folder.path, info, parts, rows)
        if info.swept:
            write_sweep(folder.path, _sweep(catalog, info, parts, workloads))
    except BaseException:
        shutil.rmtree(folder.path)
        raise
    path = folder.finish()
    for part in parts:
        shutil.rmtree(part.folder)
    return path


def _write(folder: Path, info: RunInfo, parts: Sequence[StoredPart], rows: Sequence[Measurement]) -> None:
    folders = [part.folder for part in parts]
    write_measurements(folder, info, rows)
    merge_rounds(folders, folder, info.run_id)
    for clock in (None, *CLOCKS):
        merge_samples(folders, folder, clock)
    write_builds(folder, _builds(folders))
    write_launches(folder, [row for each in folders for row in read_launches(each)])
    for part in parts:
        for record in (part.folder / _RECORDS).glob("*"):
            (folder / _RECORDS).mkdir(exist_ok=True)
            shutil.copy2(record, folder / _RECORDS / f"part{part.number}-{record.name}")
    write_info(folder, info)


def _rows(parts: Sequence[StoredPart], workloads: Sequence[Workload]) -> list[Measurement]:
    by_clock = [read_by_clock(part.folder) for part in parts]
    stored = [row for clock in (None, *CLOCKS) for each in by_clock for row in each.get(clock, [])]
    rounds = {key: found for part in parts for key, found in read_case_rounds(part.folder).items()}
    settings = parts[0].info.settings
    limits = {name: float(settings[name]) for name in ("margin", "confidence")}
    rows = judged_together(stored, rounds, **limits)
    order = {workload: number for number, workload in enumerate(workloads)}
    clock_order = {clock: number for number, clock in enumerate((None, *CLOCKS))}
    return sorted(rows, key=lambda row: (clock_order[row.clock], order[row.case.workload]))


def _builds(folders: Sequence[Path]) -> list[BuildRow]:
    """The builds of all parts, each once, preferably as interpreted."""
    found: dict[tuple[str, ...], BuildRow] = {}
    for row in (row for folder in folders for row in read_builds(folder)):
        key = (row.label, row.series, row.launch, row.arch)
        if key not in found or (row.interpreter and not found[key].interpreter):
            found[key] = row
    return [row for row in found.values() if not any(_is_fuller(other, row) for other in found.values())]


def _is_fuller(row: BuildRow, other: BuildRow) -> bool:
    """Whether a row is of the same build, with params in its label that the other's part did not need."""
    is_longer = row.label.startswith((f"{other.label}:", f"{other.label} "))
    return is_longer and replace(row, label=other.label, interpreter=other.interpreter) == other


def _info(parts: Sequence[StoredPart], cases: Sequence[Case]) -> RunInfo:
    infos = [part.info for part in parts]
    first = min(infos, key=lambda info: info.timestamp)
    machine = _common([dict(info.machine) for info in infos])
    return replace(
        infos[0],
        run_id=run_id_of(datetime.fromisoformat(first.timestamp), first.gpu, first.op, first.label),
        timestamp=first.timestamp,
        command=_without_part(first.command),
        part=None,
        merged=[{"run_id": info.run_id, "seed": info.settings["seed"], "machine": info.machine} for info in infos],
        cases=case_documents(cases),
        machine=convert(machine, MachineDocument),
        git=convert(_common([dict(info.git) for info in infos]), GitDocument),
        sources={name: source for info in infos for name, source in info.sources.items()},
        gates={case_id: gates for info in infos for case_id, gates in info.gates.items()},
        gates_passed=merge_passed_gates([info.gates_passed for info in infos]),
        tuned={case_id: choices for info in infos for case_id, choices in info.tuned.items()},
        errors=merge_errors([info.errors for info in infos]),
        contest=merge_contest([info.contest for info in infos]),
        claims=merge_claims([info.claims for info in infos]),
        calibration=infos[0].calibration if all(each.calibration == infos[0].calibration for each in infos) else None,
        warnings=list(dict.fromkeys([*(each for info in infos for each in info.warnings), *_of_several_cards(infos)])),
    )


def _of_several_cards(infos: Sequence[RunInfo]) -> list[str]:
    cards = {
        str((info.machine.get("gpu") or {}).get("uuid") or info.machine.get("host", {}).get("hostname") or info.run_id)
        for info in infos
    }
    if len(cards) < 2:
        return []
    what = "cards" if infos[0].on_gpu else "hosts"
    return [f"measured in {len(infos)} parts on {len(cards)} {what}: times of two workloads may be of two {what}"]


def _common(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first, others = documents[0], documents[1:]
    common: dict[str, Any] = {}
    for name, value in first.items():
        values = [value, *(each.get(name) for each in others)]
        if all(isinstance(each, dict) for each in values):
            common[name] = _common(values)
        elif all(each == value for each in values):
            common[name] = value
    return common


def _without_part(command: str) -> str:
    argv = shlex.split(command)
    is_part = [word == "--part" for word in argv]
    rest = [word for word, own, before in zip(argv, is_part, [False, *is_part], strict=False) if not (own or before)]
    return shlex.join(word for word in rest if not word.startswith("--part="))


def _sweep(catalog: Catalog, info: RunInfo, parts: Sequence[StoredPart], workloads: Sequence[Workload]) -> Sweep:
    answers = [answer for part in parts if (answer := read_sweep(part.folder))]
    order = {workload: number for number, workload in enumerate(workloads)}
    plateaus = _in_order((each for answer in answers for each in answer.plateaus), order)
    points = {
        (plateau.kernel, plateau.workload): [point for answer in answers for point in answer.of(plateau)]
        for plateau in plateaus
    }
    return Sweep(
        axes=answers[0].axes,
        budget_s=answers[0].budget_s,
        points=tuple(point for group in points.values() for point in group),
        plateaus=tuple(plateaus),
        one_for_all=one_for_all_of(catalog, plateaus, points, float(info.settings["margin"])),
        finals=tuple(_in_order((each for answer in answers for each in answer.finals), order)),
    )


def _in_order(parts: Iterable[T], order: Mapping[Workload, int]) -> list[T]:
    return sorted(parts, key=lambda each: order[each.workload])
