"""What the warps of a stamped kernel wrote, as it is stored: `profiles/phases/<kernel>/<run>.npz`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from gdnbench.errors import ProfilerError, ReportFormatError, ShapeError
from gdnbench.model import Shape
from gdnbench.profilers.fields import LONGEST_US, SHORTEST_US, Axes, Count, Name, Source, Text, check_schema, decode
from gdnbench.profilers.files import read_content
from gdnbench.profilers.phases.npz import read_arrays
from gdnbench.stats import FloatArray

WordArray = npt.NDArray[np.uint32]

# A warp's record, in 32-bit words, as phases.cuh writes it; the cycles of each phase follow.
BEGIN_NS, END_NS, SM, TOTAL = range(4)
HEAD = 4
UNWRITTEN = 0xFFFF_FFFF
"""Every word of a record before its warp writes it; no SM has this number."""

_SCHEMA: Literal[1] = 1
_HINT = "give --import an .npz file that `gdnbench phases` wrote"


@dataclass(frozen=True)
class About:
    """What was stamped.

    Attributes:
        op: the op.
        label: the kernel's label.
        shape: the workload.
        gpu: the GPU's name, `NVIDIA H200`.
        arch: its architecture, `sm_90`.
        phases: their names, in the order declared.
        asked: launches asked for.
        registers: per thread of the kernel as it is.
        stamped_registers: per thread of the stamped one.
        stamped_spill_bytes: local memory per thread of the stamped one.
        source: hash of the kernel's sources; empty in files of before there was one.
    """

    op: str
    label: str
    shape: Shape
    gpu: str
    arch: str
    phases: tuple[str, ...]
    asked: int
    registers: int
    stamped_registers: int
    stamped_spill_bytes: int
    source: str = ""


class _AboutFields(msgspec.Struct, frozen=True):
    """The same as it is stored."""

    op: Name
    label: Name
    shape: Axes
    gpu: Text
    arch: Text
    phases: Annotated[tuple[Text, ...], Meta(min_length=1)]
    asked: Count
    registers: Count
    stamped_registers: Count
    stamped_spill_bytes: Count
    source: Source = ""


@dataclass(frozen=True)
class Stamps:
    """The records of every warp of every launch, and what stamping costs.

    Attributes:
        about: what was stamped.
        records: an array [launches, warps, 4 + phases] of 32-bit words.
        plain_us: cold times of the kernel as it is, an array [samples], microseconds.
        stamped_us: cold times of the stamped one, between those.
    """

    about: About
    records: WordArray = field(repr=False)
    plain_us: FloatArray = field(repr=False)
    stamped_us: FloatArray = field(repr=False)

    def write(self, path: Path) -> None:
        """Writes the file in one step."""
        about = {"schema": _SCHEMA, **asdict(self.about), "shape": self.about.shape.axes()}
        temporary = path.with_name(path.name + ".new")
        with temporary.open("wb") as file:
            np.savez_compressed(
                file,
                about=np.array(json.dumps(about)),
                records=self.records,
                plain_us=self.plain_us,
                stamped_us=self.stamped_us,
            )
        temporary.replace(path)


def read_stamps(path: Path) -> Stamps:
    """Reads a file of stamps.

    Raises:
        ReportFormatError: if it cannot be read, is no such file, or a field of it cannot be what it is.
        ProfilerError: if it holds no record of a launch.
    """
    content = read_content(path, _HINT)
    try:
        about, records, plain_us, stamped_us = read_arrays(content, ("about", "records", "plain_us", "stamped_us"))
        stamps = Stamps(_about_of(about), records, _times("plain_us", plain_us), _times("stamped_us", stamped_us))
        _check_records(records, stamps.about)
    except (ValueError, ShapeError) as error:
        raise ReportFormatError(f"{path} holds no stamps: {error}", _HINT) from error
    if not records.size:
        raise ProfilerError(f"{path} holds no launch", "stamp the kernel again with `gdnbench phases`")
    return stamps


def _about_of(array: npt.NDArray[Any]) -> About:
    if array.dtype.kind != "U" or array.ndim:
        raise ValueError(f"about is {array.dtype} of {array.shape}, and no text")
    document = str(array[()])
    check_schema(document, _SCHEMA)
    fields = decode(document, _AboutFields)
    return About(**{**msgspec.structs.asdict(fields), "shape": fields.shape.shape()})


def _times(name: str, array: npt.NDArray[Any]) -> FloatArray:
    """Cold times: at least one, none of them zero."""
    if array.dtype != np.float64 or array.ndim != 1 or not array.size:
        raise ValueError(f"{name} is {array.dtype} of {array.shape}, and no list of times")
    is_time = (array >= SHORTEST_US) & (array <= LONGEST_US)  # which NaN is not
    if not is_time.all():
        raise ValueError(f"{name} holds {array[~is_time][0]}, which is no time")
    return array


def _check_records(records: npt.NDArray[Any], about: About) -> None:
    if records.dtype != np.uint32 or records.ndim != 3 or records.shape[2] != HEAD + len(about.phases):
        raise ValueError(f"records are {records.dtype} of {records.shape}, for {len(about.phases)} phases")
