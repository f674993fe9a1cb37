"""Records of a stamped kernel's warps, and the file that stores them: `profiles/phases/<kernel>/<run>.npz`."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from gdnbench.codec import Text, Word
from gdnbench.errors import ProfilerError, ReportFormatError, ShapeError
from gdnbench.model.workload import Workload
from gdnbench.profile import files
from gdnbench.profile.files import (
    LONGEST_LAUNCH_US,
    SHORTEST_LAUNCH_US,
    SizeFields,
    SourceHash,
    decode_document,
    read_content,
    stored_workload,
)
from gdnbench.stats import FloatArray
from gdnbench.store.schema import SmallCount

WordArray = npt.NDArray[np.uint32]

# The 32-bit words of a warp's record, as phases.cuh writes it; the cycles of each phase follow.
BEGIN_NS, END_NS, SM, TOTAL = range(4)
HEAD = 4
UNWRITTEN = 0xFFFF_FFFF
"""Every word of a record before its warp writes it; an SM number is always smaller."""

_SCHEMA = 1
_HINT = "give --import an .npz file that `gdnbench proton` wrote"


class StampedKernel(msgspec.Struct, frozen=True):
    """The kernel that was stamped, as files hold it."""

    op: Word
    label: Word
    shape: SizeFields
    gpu: Text  # the GPU's name, `NVIDIA H200`
    arch: Text
    phases: Annotated[tuple[Text, ...], Meta(min_length=1)]  # names, in declaration order
    asked: SmallCount  # requested launches
    registers: SmallCount  # per thread of the plain kernel; `stamped_registers` of the stamped one
    stamped_registers: SmallCount
    stamped_spill_bytes: SmallCount  # local memory per thread of the stamped kernel
    source: SourceHash = ""  # hash of the kernel's sources; empty in files from before gdnbench recorded it
    entry: Text = ""  # the stamped launch of a kernel with several; empty for a kernel of one
    block_warps: SmallCount = 0  # warps of a block; 0 in files from before gdnbench recorded it
    profile: Text = ""

    @property
    def workload(self) -> Workload:
        """The workload; raises ValueError if the sizes fit none of the op."""
        return stored_workload(self.shape, self.op, self.profile)

    @property
    def title(self) -> str:
        """The kernel's name in tables, with the launch if it has several."""
        return f"{self.label}/{self.entry}" if self.entry else self.label

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON holds them."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if name != "profile" or value}


@dataclass(frozen=True)
class Stamps:
    """The records of each warp of each launch, and the times that show the overhead."""

    about: StampedKernel
    records: WordArray = field(repr=False)  # an array [launches, warps, 4 + phases] of 32-bit words
    plain_us: FloatArray = field(repr=False)  # cold times of the plain kernel, an array [samples], microseconds
    stamped_us: FloatArray = field(repr=False)  # cold times of the stamped kernel, interleaved with those

    def write(self, path: Path) -> None:
        """Writes the file atomically."""
        about = {"schema": _SCHEMA, **self.about.to_dict()}
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
    """Reads a file of stamps; raises ReportFormatError if it is invalid, ProfilerError if it holds no launch."""
    content = read_content(path, _HINT)
    try:
        about, records, plain_us, stamped_us = _read_arrays(content, ("about", "records", "plain_us", "stamped_us"))
        stamps = Stamps(_about_of(about), records, _times("plain_us", plain_us), _times("stamped_us", stamped_us))
        phases = len(stamps.about.phases)
        if records.dtype != np.uint32 or records.ndim != 3 or records.shape[2] != HEAD + phases:
            raise ValueError(f"records are {records.dtype} of {records.shape}, for {phases} phases")
    except (ValueError, ShapeError) as error:
        raise ReportFormatError(f"{path} holds no stamps: {error}", _HINT) from error
    if not records.size:
        raise ProfilerError(f"{path} holds no launch", "stamp the kernel again with `gdnbench proton`")
    return stamps


def _about_of(array: npt.NDArray[Any]) -> StampedKernel:
    if array.dtype.kind != "U" or array.ndim:
        raise ValueError(f"about is {array.dtype} of {array.shape}, and no text")
    document = str(array[()])
    kernel = decode_document(document, StampedKernel, _SCHEMA)
    _ = kernel.workload  # is checked
    return kernel


def _times(name: str, array: npt.NDArray[Any]) -> FloatArray:
    if array.dtype != np.float64 or array.ndim != 1 or not array.size:
        raise ValueError(f"{name} is {array.dtype} of {array.shape}, and no list of times")
    is_time = (array >= SHORTEST_LAUNCH_US) & (array <= LONGEST_LAUNCH_US)  # False for NaN
    if not is_time.all():
        raise ValueError(f"{name} holds {array[~is_time][0]}, which is not a time")
    return array


def _read_arrays(content: bytes, names: Sequence[str]) -> list[npt.NDArray[Any]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [_member(archive, name) for name in names]
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is no .npz, or damaged: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError as error:
        raise ValueError(f"it lacks {name}") from error
    if member.file_size > files.MOST_BYTES:
        raise ValueError(f"{name} declares {member.file_size} bytes")
    try:
        array: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(archive.read(member)), allow_pickle=False)
    except Exception as error:  # zipfile and NumPy raise various types for a damaged or pickled member
        raise ValueError(f"{name}: {error}") from error
    return array
