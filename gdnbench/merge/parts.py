"""Reads and checks the parts of a run, and restores the order of their workloads."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.model.workload import Workload
from gdnbench.store.info import RunInfo, part_of, read_info

_MAY_DIFFER = ("seed",)
"""Settings in which parts may differ."""


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
    """Reads the parts of one run, in their order.

    Raises:
        UsageError: if a run is not a part, is not complete, is there twice or missing, or they are not parts of one
            run.
        RunFormatError: if one cannot be read.
    """
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
        raise UsageError(f"{info.run_id} is no part of a run", "a part is measured by `gdnbench run --part 1/4 ...`")
    if not info.complete:
        finish = shlex.join(["gdnbench", "run", "--resume", info.run_id])
        raise UsageError(f"{info.run_id} is not complete", f"finish it: {finish}")
    return StoredPart(folder, info, part.number)


def _check_alike(first: StoredPart, other: StoredPart) -> None:
    settings = [_comparable(part.info.settings) for part in (first, other)]
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
        },
    }
    for what, (left, right) in apart.items():
        if left != right:
            names = f"{first.info.run_id} and {other.info.run_id}"
            raise UsageError(f"{names} are not parts of one run: they differ in the {what}", "measure them alike")


def _comparable(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _MAY_DIFFER}


def _check_all_there(parts: Sequence[StoredPart]) -> None:
    numbers = [part.number for part in parts]
    of = part_of(parts[0].info)
    assert of is not None
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice:
        raise UsageError(f"part {twice} of {of.of} is named twice", "name each part once")
    missing = [str(number) for number in range(1, of.of + 1) if number not in numbers]
    if missing:
        raise UsageError(f"part {', '.join(missing)} of {of.of} is missing", "name all parts of the run")
    workloads = [workload for part in parts for workload in part.workloads]
    shared = next((workload for workload in workloads if workloads.count(workload) > 1), None)
    if shared:
        raise UsageError(f"{shared} is in two parts", "parts of one run have workloads of their own")
