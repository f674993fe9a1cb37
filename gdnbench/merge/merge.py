"""Writes the run that consists of parts."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from gdnbench.catalog.catalog import Catalog
from gdnbench.codec import convert
from gdnbench.measuring.conclude import one_for_all_of
from gdnbench.merge.parts import StoredPart, in_order, read_parts
from gdnbench.merge.verdicts import judged_together
from gdnbench.model.case import Case
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import CLOCKS
from gdnbench.model.sweep import Plateau, Point, Sweep
from gdnbench.model.workload import Workload
from gdnbench.store.builds import BuildRow, read_builds, write_builds
from gdnbench.store.contest import merge_contest
from gdnbench.store.folder import RunFolder, run_id_of
from gdnbench.store.info import RunInfo, case_documents, merge_errors, merge_passed_gates, write_info
from gdnbench.store.launches import read_launches, write_launches
from gdnbench.store.measurements import read_clocks, read_measurements, write_measurements
from gdnbench.store.samples import merge_rounds, merge_samples, read_case_rounds
from gdnbench.store.schema import GitDocument, MachineDocument, MergedDocument
from gdnbench.store.sweep import read_sweep, write_sweep

T = TypeVar("T")
_RECORDS = "nvbench"


def merge_parts(catalog: Catalog, folders: Iterable[Path], results: Path, command: str = "") -> Path:
    """Replaces the parts of one run by the whole run, and returns its folder.

    Every workload keeps its times. Results over all workloads are computed anew: the verdicts, which are corrected for
    the number of comparisons, and of a sweep the one point for all. `catalog` is needed for a sweep alone; `command` is
    the command line of the whole run, by default that of a part without `--part`.

    Raises:
        UsageError: if they are not all the parts of one run, each complete.
        RunFormatError: if one cannot be read.
        MachineError: if the results folder cannot be written.
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
    """The rows of all parts, those of the run's own timer first, in the order of the workloads."""
    own = [row for part in parts for row in read_measurements(part.folder)]
    clocks = [read_clocks(part.folder) for part in parts]
    further = [row for clock in CLOCKS for each in clocks for row in each.get(clock, [])]
    rounds = {key: found for part in parts for key, found in read_case_rounds(part.folder).items()}
    settings = parts[0].info.settings
    rows = judged_together(
        [*own, *further], rounds, margin=float(settings["margin"]), confidence=float(settings["confidence"])
    )
    order = {workload: number for number, workload in enumerate(workloads)}
    clock_order = {clock: number for number, clock in enumerate((None, *CLOCKS))}
    return sorted(rows, key=lambda row: (clock_order[row.clock], order[row.case.workload]))


def _builds(folders: Sequence[Path]) -> list[BuildRow]:
    """The builds of all parts, each once, preferably as interpreted: parts of one series have the same builds."""
    found: dict[tuple[str, ...], BuildRow] = {}
    for row in (row for folder in folders for row in read_builds(folder)):
        key = (row.label, row.series, row.launch, row.arch)
        if key not in found or (row.interpreter and not found[key].interpreter):
            found[key] = row
    return [row for row in found.values() if not any(_tells_more(other, row) for other in found.values())]


def _tells_more(row: BuildRow, other: BuildRow) -> bool:
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
        merged=[_origin(info) for info in infos],
        cases=case_documents(cases),
        machine=convert(machine, MachineDocument),
        git=convert(_common([dict(info.git) for info in infos]), GitDocument),
        sources={name: source for info in infos for name, source in info.sources.items()},
        gates={case_id: gates for info in infos for case_id, gates in info.gates.items()},
        gates_passed=merge_passed_gates([info.gates_passed for info in infos]),
        tuned={case_id: choices for info in infos for case_id, choices in info.tuned.items()},
        errors=merge_errors([info.errors for info in infos]),
        contest=merge_contest([info.contest for info in infos]),
        calibration=infos[0].calibration if all(each.calibration == infos[0].calibration for each in infos) else None,
        warnings=list(dict.fromkeys([*(each for info in infos for each in info.warnings), *_of_several_cards(infos)])),
    )


def _origin(info: RunInfo) -> MergedDocument:
    return convert({"run_id": info.run_id, "seed": info.settings["seed"], "machine": info.machine}, MergedDocument)


def _of_several_cards(infos: Sequence[RunInfo]) -> list[str]:
    cards = {_card(info) for info in infos}
    if len(cards) < 2:
        return []
    what = "cards" if infos[0].on_gpu else "hosts"
    return [f"measured in {len(infos)} parts on {len(cards)} {what}: times of two workloads may be of two {what}"]


def _card(info: RunInfo) -> str:
    gpu = info.machine.get("gpu") or {}
    return str(gpu.get("uuid") or info.machine.get("host", {}).get("hostname") or info.run_id)


def _common(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first, others = documents[0], documents[1:]
    found: dict[str, Any] = {}
    for name, value in first.items():
        theirs = [each.get(name) for each in others]
        if isinstance(value, dict) and all(isinstance(each, dict) for each in theirs):
            found[name] = _common([value, *(each for each in theirs if isinstance(each, dict))])
        elif all(each == value for each in theirs):
            found[name] = value
    return found


def _without_part(command: str) -> str:
    words = shlex.split(command)
    kept, skip = [], False
    for word in words:
        if skip or word == "--part":
            skip = not skip
        elif not word.startswith("--part="):
            kept.append(word)
    return shlex.join(kept)


def _sweep(catalog: Catalog, info: RunInfo, parts: Sequence[StoredPart], workloads: Sequence[Workload]) -> Sweep:
    """The results of the parts, in the order of the workloads, and the one point for all of these."""
    answers = [answer for part in parts if (answer := read_sweep(part.folder))]
    order = {workload: number for number, workload in enumerate(workloads)}
    plateaus = _sorted([each for answer in answers for each in answer.plateaus], order, lambda each: each.workload)
    points = {(plateau.kernel, plateau.workload): _points(answers, plateau) for plateau in plateaus}
    return Sweep(
        axes=answers[0].axes,
        budget_s=answers[0].budget_s,
        points=tuple(point for group in points.values() for point in group),
        plateaus=tuple(plateaus),
        one_for_all=one_for_all_of(catalog, plateaus, points, float(info.settings["margin"])),
        finals=tuple(
            _sorted([each for answer in answers for each in answer.finals], order, lambda each: each.workload)
        ),
    )


def _points(answers: Sequence[Sweep], plateau: Plateau) -> list[Point]:
    return [
        point
        for answer in answers
        for point in answer.points
        if (point.kernel, point.workload) == (plateau.kernel, plateau.workload)
    ]


def _sorted(found: Sequence[T], order: Mapping[Workload, int], workload_of: Callable[[T], Workload]) -> list[T]:
    return sorted(found, key=lambda each: order[workload_of(each)])
