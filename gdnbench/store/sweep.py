"""`sweep.json`: a sweep's answer, stored beside the measurements that it follows from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from gdnbench.codec import finite
from gdnbench.errors import RunFormatError, ShapeError
from gdnbench.model.declaration import Params
from gdnbench.model.measurement import OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.store.files import DAMAGED, read_document
from gdnbench.store.info import read_axes
from gdnbench.store.schema import (
    MOST_ROUNDS,
    MaybeName,
    Name,
    NotNegative,
    ParamCell,
    ParamName,
    ParamValues,
    SizesDocument,
)

SCHEMA_VERSION = 2
READABLE = (1, 2)
NAME = "sweep.json"


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Writes `sweep.json`; an unknown upper end is null, for JSON has no infinity."""
    document = {"schema": SCHEMA_VERSION, **sweep.to_dict()}
    (folder / NAME).write_text(json.dumps(finite(document), indent=1, allow_nan=False) + "\n")


def read_sweep(folder: Path) -> Sweep | None:
    """Reads `sweep.json`; None for a run that is no sweep.

    Raises:
        RunFormatError: if it is cut off, of another schema version, lacks a field, or contradicts itself.
    """
    path = folder / NAME
    if not path.exists():
        return None
    document = read_document(path, _SweepDocument)
    if document.schema not in READABLE:
        raise RunFormatError(f"{path} is of another schema version", "use the gdnbench that wrote it")
    try:
        return document.sweep(read_axes(folder))
    except (ValueError, ShapeError) as error:
        raise RunFormatError(f"{path}: {error}", DAMAGED) from error


class _Closed(Struct, forbid_unknown_fields=True):
    """Refuses unknown fields: one of them might change what the others mean."""


class _PointDocument(_Closed):
    kernel: Name
    label: Name
    params: ParamValues
    shape: SizesDocument
    place: Place
    slower_by: Annotated[float, Meta(gt=-1, le=1e9)]
    slower_lo: Annotated[float, Meta(ge=-1, le=1e9)]
    slower_hi: Annotated[float, Meta(gt=-1, le=1e18)] | None
    rounds: Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
    profile: MaybeName = ""

    def point(self, axes: WorkloadSpec) -> Point:
        return Point(
            kernel=self.kernel,
            label=self.label,
            params=Params(self.params),
            workload=axes.stored(self.shape, profile=self.profile),
            place=self.place,
            slower_by=self.slower_by,
            slower_lo=self.slower_lo,
            slower_hi=math.inf if self.slower_hi is None else self.slower_hi,
            rounds=self.rounds,
        )


class _PlateauDocument(_Closed):
    kernel: Name
    shape: SizesDocument
    best: Name
    simplest: Name
    tied: tuple[Name, ...]
    unclear: tuple[Name, ...]
    within: NotNegative
    profile: MaybeName = ""

    def plateau(self, axes: WorkloadSpec) -> Plateau:
        return Plateau(
            kernel=self.kernel,
            workload=axes.stored(self.shape, profile=self.profile),
            best=self.best,
            simplest=self.simplest,
            tied=self.tied,
            unclear=self.unclear,
            within=self.within,
        )


class _RegretDocument(_Closed):
    shape: SizesDocument
    regret: NotNegative
    profile: MaybeName = ""


class _OneForAllDocument(_Closed):
    kernel: Name
    label: Name
    regret: Annotated[tuple[_RegretDocument, ...], Meta(min_length=1)]

    def one_for_all(self, axes: WorkloadSpec) -> OneForAll:
        regret = {axes.stored(each.shape, profile=each.profile): each.regret for each in self.regret}
        return OneForAll(kernel=self.kernel, label=self.label, regret=regret)


class _SweepDocument(_Closed):
    schema: int
    axes: dict[Name, dict[ParamName, list[ParamCell]]]
    budget_s: NotNegative
    points: tuple[_PointDocument, ...]
    plateaus: tuple[_PlateauDocument, ...]
    one_for_all: tuple[_OneForAllDocument, ...]
    finals: tuple[_PointDocument, ...] = ()  # older sweeps have none

    def sweep(self, axes: WorkloadSpec) -> Sweep:
        """The answer.

        Raises:
            ValueError: if it is made of points that are not there.
            ShapeError: for a workload that none can have.
        """
        return Sweep(
            axes=self.axes,
            budget_s=self.budget_s,
            points=tuple(each.point(axes) for each in self.points),
            plateaus=tuple(each.plateau(axes) for each in self.plateaus),
            one_for_all=tuple(each.one_for_all(axes) for each in self.one_for_all),
            finals=tuple(each.point(axes) for each in self.finals),
        )
