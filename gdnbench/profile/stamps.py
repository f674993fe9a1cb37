"""Records of a stamped kernel's warps, and the file that stores them: `profiles/phases/<kernel>/<run>.npz`."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
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
from gdnbench.stats import FloatArray
from gdnbench.store.schema import SmallCount

WordArray = npt.NDArray[np.uint32]

# The 32-bit words of a warp's record, as phases.cuh writes it; the cycles of each phase follow.
BEGIN_NS, END_NS, SM, TOTAL = range(4)
HEAD = 4
COUNTED = HEAD
"""In the record of a warp that notes each pass: how many there were, after the head."""
CYCLE_BITS = 26  # of the word of a pass; its phase is above them
BETWEEN_CLOCKS = 63
"""The phase of a pass that ends what lies between two clocks of a warp, as where its block takes turns."""
_ARRAYS, _NOTED = ("about", "records", "plain_us", "stamped_us"), ("pass_records", "pass_words")
UNWRITTEN = 0xFFFF_FFFF
"""Every word of a record before its warp writes it; an SM number is always smaller."""

_SCHEMA = 1
_HINT = "give --import an .npz file that `gdnbench proton` wrote"


class StampedKernel(msgspec.Struct, frozen=True):
    """The kernel that was stamped, as files hold it."""

    op: Word
    label: Word
    shape: files.SizeFields
    gpu: Text  # the GPU's name, `NVIDIA H200`
    arch: Text
    phases: Annotated[tuple[Text, ...], Meta(min_length=1)]  # names, in declaration order
    asked: SmallCount  # requested launches
    registers: SmallCount  # per thread of the plain kernel; `stamped_registers` of the stamped one
    stamped_registers: SmallCount
    stamped_spill_bytes: SmallCount  # local memory per thread of the stamped kernel
    source: files.SourceHash = ""  # hash of the kernel's sources; empty in files from before gdnbench recorded it
    entry: Text = ""  # the stamped launch of a kernel with several; empty for a kernel of one
    block_warps: SmallCount = 0  # warps of a block; 0 in files from before gdnbench recorded it
    profile: Text = ""

    @property
    def workload(self) -> Workload:
        """The workload; raises ValueError if the sizes fit none of the op."""
        return files.stored_workload(self.shape, self.op, self.profile)

    @property
    def title(self) -> str:
        """The kernel's name in tables, with the launch if it has several."""
        return f"{self.label}/{self.entry}" if self.entry else self.label

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON holds them."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if name != "profile" or value}


@dataclass(frozen=True)
class Passes:
    """Each pass of warps through marks, of a few launches: of all warps of the grid, or of its first blocks."""

    records: WordArray = field(repr=False)  # an array [launches, warps, 5]: the head, and the number of passes
    words: WordArray = field(repr=False)  # an array [launches, warps, passes]: each pass's phase and cycles

    @property
    def phases(self) -> WordArray:
        """The phase that each pass ended, an array [launches, warps, passes]; meaningless beyond a warp's passes."""
        return self.words >> np.uint32(CYCLE_BITS)

    @property
    def is_between(self) -> npt.NDArray[np.bool_]:
        """Whether a pass ended no phase, but what lies between two clocks of a warp."""
        return np.equal(self.phases, BETWEEN_CLOCKS)

    @property
    def ends(self) -> WordArray:
        """Cycles from the warp's begin to each pass."""
        return self.words & np.uint32((1 << CYCLE_BITS) - 1)

    @property
    def is_there(self) -> npt.NDArray[np.bool_]:
        """Whether a warp made so many passes, and had room to note this one."""
        counts = np.where(self.records[:, :, SM] == UNWRITTEN, 0, self.records[:, :, COUNTED])
        return np.arange(self.words.shape[2]) < counts[:, :, None]


@dataclass(frozen=True)
class Stamps:
    """The records of each warp of each launch, and the times that show the overhead."""

    about: StampedKernel
    records: WordArray = field(repr=False)  # an array [launches, warps, 4 + phases] of 32-bit words
    plain_us: FloatArray = field(repr=False)  # cold times of the plain kernel, an array [samples], microseconds
    stamped_us: FloatArray = field(repr=False)  # cold times of the stamped kernel, interleaved with those
    passes: Passes | None = None  # None in files from before gdnbench noted them, and of very large grids

    def write(self, path: Path) -> None:
        """Writes the file atomically."""
        about = {"schema": _SCHEMA, **self.about.to_dict()}
        noted = dict(zip(_NOTED, (self.passes.records, self.passes.words), strict=True)) if self.passes else {}
        arrays: dict[str, Any] = {
            "records": self.records,
            "plain_us": self.plain_us,
            "stamped_us": self.stamped_us,
            **noted,
        }
        temporary = path.with_name(path.name + ".new")
        with temporary.open("wb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)
        temporary.replace(path)


def read_stamps(path: Path) -> Stamps:
    """Reads a file of stamps; raises ReportFormatError if it is invalid, ProfilerError if it holds no launch."""
    content = files.read_content(path, _HINT)
    try:
        found = _read_arrays(content)
        records = found["records"]
        plain_us, stamped_us = (_times(name, found[name]) for name in ("plain_us", "stamped_us"))
        stamps = Stamps(_about_of(found["about"]), records, plain_us, stamped_us, _passes_of(found))
        phases = len(stamps.about.phases)
        if records.dtype != np.uint32 or records.ndim != 3 or records.shape[2] != HEAD + phases:
            raise ValueError(f"records are {records.dtype} of {records.shape}, for {phases} phases")
        if (passes := stamps.passes) and ((passes.phases >= phases) & passes.is_there & ~passes.is_between).any():
            raise ValueError(f"pass_words tell of other phases than the {phases}")
    except (ValueError, ShapeError) as error:
        raise ReportFormatError(f"{path} holds no stamps: {error}", _HINT) from error
    if not records.size:
        raise ProfilerError(f"{path} holds no launch", "stamp the kernel again with `gdnbench proton`")
    return stamps


def _about_of(array: npt.NDArray[Any]) -> StampedKernel:
    if array.dtype.kind != "U" or array.ndim:
        raise ValueError(f"about is {array.dtype} of {array.shape}, and no text")
    document = str(array[()])
    kernel = files.decode_document(document, StampedKernel, _SCHEMA)
    _ = kernel.workload  # is checked
    return kernel


def _times(name: str, array: npt.NDArray[Any]) -> FloatArray:
    if array.dtype != np.float64 or array.ndim != 1 or not array.size:
        raise ValueError(f"{name} is {array.dtype} of {array.shape}, and no list of times")
    is_time = (array >= files.SHORTEST_LAUNCH_US) & (array <= files.LONGEST_LAUNCH_US)  # False for NaN
    if not is_time.all():
        raise ValueError(f"{name} holds {array[~is_time][0]}, which is not a time")
    return array


def _passes_of(found: Mapping[str, npt.NDArray[Any]]) -> Passes | None:
    if not found.keys() & set(_NOTED):
        return None
    records, words = (found[name] for name in _NOTED)
    passes, shapes = Passes(records, words), f"pass_records are {records.shape}, pass_words {words.shape}"
    if not (records.dtype == words.dtype == np.uint32 and records.ndim == words.ndim == 3):
        raise ValueError(f"{shapes}, and not both three-dimensional of 32-bit words")
    if records.shape[:2] != words.shape[:2] or records.shape[2] != COUNTED + 1 or not words.size:
        raise ValueError(shapes)
    return passes


def _read_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            noted = _NOTED if any(f"{name}.npy" in archive.namelist() for name in _NOTED) else ()
            return {name: _member(archive, name) for name in (*_ARRAYS, *noted)}
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is no .npz, or damaged: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError as error:
        raise ValueError(f"it lacks {name}") from error
    try:
        array: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(archive.read(member)), allow_pickle=False)
    except Exception as error:  # zipfile and NumPy raise various types for a damaged or pickled member
        raise ValueError(f"{name}: {error}") from error
    return array
